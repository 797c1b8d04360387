#include "ops/conv/code_attributes.h"

#include "kernels/quant/code_reciprocal.h"

namespace cudaep::ops {
namespace {

int32_t LowestOf(DataType type) { return type == DataType::kInt8 ? -128 : 0; }

}  // namespace

Result<kernels::Bounds> ParseBounds(const OpInfo& info, const char* name) {
  const auto given = info.Floats(name);
  if (!given) return kernels::Bounds{};
  if (given->size() != 2) return InvalidArgument(name, " need 2 values, not ", given->size());
  return kernels::Bounds{(*given)[0], (*given)[1]};
}

Result<kernels::Coding> ParseCoding(const OpInfo& info, const char* scale, const char* zero, DataType type) {
  kernels::Coding coding{.scale = info.FloatOr(scale, 0), .lowest = LowestOf(type)};
  if (!(coding.scale > 0)) return InvalidArgument(scale, " must be a positive number");
  if (!kernels::IsModerateScale(coding.scale)) {
    return NotSupported(scale, " ", coding.scale, "; 2^-60 to 2^60 are offered");
  }
  const int64_t point = info.IntOr(zero, 0);
  if (point < coding.lowest || point > coding.lowest + 255) {
    return InvalidArgument(zero, " ", point, " is no ", DataTypeName(type));
  }
  coding.zero = static_cast<int32_t>(point);
  return coding;
}

}  // namespace cudaep::ops
