#include "kernels/norm/layer_norm.h"

#include <algorithm>

#include "core/checked_math.h"
#include "kernels/norm/layer_norm_types.h"

namespace cudaep::kernels {

bool LayerNormSupports(DataType x_type, DataType y_type) {
  if (x_type == y_type) return kFloatTypes.Contains(x_type);
  return (x_type == DataType::kFloat && kFloat16Types.Contains(y_type)) ||
         (y_type == DataType::kFloat && kFloat16Types.Contains(x_type));
}

RowPlan PlanLayerNorm(DataType x_type, DataType y_type, int64_t rows, int64_t elems, bool whole_rows) {
  return PlanRows(rows, elems, std::max(SizeOf(x_type), SizeOf(y_type)), whole_rows);
}

Status LaunchLayerNorm(const LayerNormArgs& args, device::Stream stream) {
  if (args.rows == 0) return Status::Ok();
  if (!FitsInt32(args.elems)) return NotSupported("normalisation over ", args.elems, " elements, more than 2^31 - 1");
  return args.x_type == args.y_type ? LaunchLayerNormUniform(args, stream) : LaunchLayerNormMixed(args, stream);
}

}  // namespace cudaep::kernels
