#include "ops/shape/host_ints.h"

namespace cudaep::ops {

Result<std::vector<int64_t>> HostInts(const TensorView& input, std::string_view what) {
  if (input.rank > 1) return InvalidArgument(what, " must be a list, its shape is ", input.dims());
  if (input.type == DataType::kInt64) {
    const auto values = input.host<int64_t>();
    return std::vector<int64_t>(values.begin(), values.end());
  }
  if (input.type == DataType::kInt32) {
    const auto values = input.host<int32_t>();
    return std::vector<int64_t>(values.begin(), values.end());
  }
  return InvalidArgument(what, " must be int32 or int64, not ", DataTypeName(input.type));
}

}  // namespace cudaep::ops
