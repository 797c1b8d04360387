#include "core/data_type.h"

namespace cudaep {
namespace {

struct TypeFacts {
  std::string_view name;
  int bits;
};

constexpr TypeFacts kFacts[kDataTypeCount] = {
    {"undefined", 0},      {"float", 32},    {"uint8", 8},        {"int8", 8},           {"uint16", 16},
    {"int16", 16},         {"int32", 32},    {"int64", 64},       {"string", 0},         {"bool", 8},
    {"float16", 16},       {"double", 64},   {"uint32", 32},      {"uint64", 64},        {"complex64", 64},
    {"complex128", 128},   {"bfloat16", 16}, {"float8e4m3fn", 8}, {"float8e4m3fnuz", 8}, {"float8e5m2", 8},
    {"float8e5m2fnuz", 8}, {"uint4", 4},     {"int4", 4},         {"float4e2m1", 4},     {"float8e8m0", 8},
    {"uint2", 2},          {"int2", 2},
};

const TypeFacts& FactsOf(DataType type) {
  const int index = static_cast<int>(type);
  return kFacts[index < kDataTypeCount ? index : 0];
}

}  // namespace

int BitsOf(DataType type) { return FactsOf(type).bits; }

size_t SizeOf(DataType type) { return static_cast<size_t>(FactsOf(type).bits / 8); }

size_t StorageBytes(DataType type, int64_t elems) {
  const auto bits = static_cast<size_t>(FactsOf(type).bits), count = static_cast<size_t>(elems);
  return bits >= 8 ? count * (bits / 8) : (count * bits + 7) / 8;
}

std::string_view DataTypeName(DataType type) { return FactsOf(type).name; }

}  // namespace cudaep
