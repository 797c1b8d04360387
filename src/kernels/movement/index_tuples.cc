#include "kernels/movement/index_tuples.h"

#include "core/shape.h"

namespace cudaep::kernels {

Result<IndexTuples> MakeIndexTuples(Dims dims) {
  if (dims.size() > kMaxTupleLength) {
    return NotSupported("indices of ", dims.size(), " dimensions; up to ", kMaxTupleLength, " are offered");
  }
  IndexTuples tuples;
  tuples.length = static_cast<int>(dims.size());
  const Shape strides = ContiguousStrides(dims);
  for (int k = 0; k < tuples.length; ++k) {
    tuples.size[k] = dims[static_cast<size_t>(k)];
    tuples.stride[k] = strides[k];
  }
  return tuples;
}

}  // namespace cudaep::kernels
