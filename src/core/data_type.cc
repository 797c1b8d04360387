#include "core/data_type.h"

namespace cudaep {
namespace {

struct TypeFacts {
  std::string_view name;
  size_t bytes;
};

constexpr TypeFacts kFacts[kDataTypeCount] = {
    {"undefined", 0},      {"float", 4},    {"uint8", 1},        {"int8", 1},           {"uint16", 2},
    {"int16", 2},          {"int32", 4},    {"int64", 8},        {"string", 0},         {"bool", 1},
    {"float16", 2},        {"double", 8},   {"uint32", 4},       {"uint64", 8},         {"complex64", 8},
    {"complex128", 16},    {"bfloat16", 2}, {"float8e4m3fn", 1}, {"float8e4m3fnuz", 1}, {"float8e5m2", 1},
    {"float8e5m2fnuz", 1},
};

const TypeFacts& FactsOf(DataType type) {
  const int index = static_cast<int>(type);
  return kFacts[index < kDataTypeCount ? index : 0];
}

}  // namespace

size_t SizeOf(DataType type) { return FactsOf(type).bytes; }

std::string_view DataTypeName(DataType type) { return FactsOf(type).name; }

}  // namespace cudaep
