#include "ops/collective/collective_shape.h"

#include "core/checked_math.h"

namespace cudaep::ops {

bool CollectiveShape::ChangesAxis(int axis, int rank) const {
  const auto is = [&](int64_t other) { return other == axis || other + rank == axis; };
  return (splits() && is(split_axis)) != (joins() && is(concat_axis));
}

Result<Shape> CollectiveShape::Infer(Dims dims) const {
  Shape shape(dims);
  const int rank = static_cast<int>(dims.size());
  if (splits()) {
    CUDAEP_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(split_axis, rank));
    if (shape[axis] != kUnknownDim) {
      if (shape[axis] % group_size != 0) {
        return InvalidArgument("dimension ", axis, " of ", dims, " cannot be divided among ", group_size, " ranks");
      }
      shape[axis] /= group_size;
    }
  }
  if (joins()) {
    CUDAEP_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(concat_axis, rank));
    if (shape[axis] != kUnknownDim && !CheckedMultiply(shape[axis], group_size, &shape[axis])) {
      return InvalidArgument("dimension ", axis, " of ", group_size, " ranks together exceeds 64 bits");
    }
  }
  return shape;
}

}  // namespace cudaep::ops
