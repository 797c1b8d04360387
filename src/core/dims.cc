#include "core/dims.h"

#include <algorithm>

#include "core/checked_math.h"

namespace cudaep {

Result<int64_t> CheckedElementCount(Dims dims) {
  int64_t count = 1;
  bool empty = false;
  for (int64_t dim : dims) {
    if (dim < 0) return InvalidArgument("negative dimension in shape ", dims);
    if (dim == 0) {
      empty = true;
      continue;
    }
    if (!CheckedMultiply(count, dim, &count)) return InvalidArgument("element count of ", dims, " exceeds 64 bits");
  }
  return empty ? 0 : count;
}

bool SameDims(Dims a, Dims b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }

}  // namespace cudaep
