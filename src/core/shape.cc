#include "core/shape.h"

#include <algorithm>

namespace cudaep {

Shape ContiguousStrides(Dims dims) {
  Shape strides(static_cast<int>(dims.size()), 1);
  for (int d = strides.rank() - 2; d >= 0; --d) strides[d] = strides[d + 1] * dims[static_cast<size_t>(d) + 1];
  return strides;
}

Result<int> NormalizeAxis(int64_t axis, int rank, std::string_view what) {
  if (axis < -rank || axis >= rank) {
    return InvalidArgument(what, " ", axis, " is outside [", -rank, ", ", rank, ")");
  }
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

Result<Shape> BroadcastShapes(Dims a, Dims b) {
  const int rank = static_cast<int>(std::max(a.size(), b.size()));
  Shape out(rank, 1);
  for (int i = 1; i <= rank; ++i) {
    const int64_t da = i <= static_cast<int>(a.size()) ? a[a.size() - static_cast<size_t>(i)] : 1;
    const int64_t db = i <= static_cast<int>(b.size()) ? b[b.size() - static_cast<size_t>(i)] : 1;
    if (da != db && da != 1 && db != 1) return InvalidArgument("shapes ", a, " and ", b, " do not broadcast");
    out[rank - i] = da == 1 ? db : da;
  }
  return out;
}

}  // namespace cudaep
