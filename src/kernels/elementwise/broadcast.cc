#include "kernels/elementwise/broadcast.h"

namespace cudaep::kernels::detail {
namespace {

// Contiguous strides of `dims`, seen from the output's dimension `axis` counted from the innermost; 0 if repeated.
int64_t StrideAt(Dims dims, int axis) {
  const int rank = static_cast<int>(dims.size());
  if (axis >= rank || dims[static_cast<size_t>(rank - 1 - axis)] == 1) return 0;
  int64_t stride = 1;
  for (int i = 0; i < axis; ++i) stride *= dims[static_cast<size_t>(rank - 1 - i)];
  return stride;
}

}  // namespace

Status CoalesceBroadcast(Dims output, std::span<const Dims> inputs, int* rank, int64_t* elems, int64_t* size,
                         int64_t* strides) {
  const int full_rank = static_cast<int>(output.size());
  *elems = ElementCount(output);
  *rank = 0;
  if (*elems == 0) return Status::Ok();
  for (int axis = 0; axis < full_rank; ++axis) {
    const int64_t dim = output[static_cast<size_t>(full_rank - 1 - axis)];
    if (dim == 1) continue;
    bool merges = *rank > 0;
    for (size_t i = 0; merges && i < inputs.size(); ++i) {
      const int64_t* row = strides + i * kMaxBroadcastRank;
      merges = StrideAt(inputs[i], axis) == row[*rank - 1] * size[*rank - 1];
    }
    if (merges) {
      size[*rank - 1] *= dim;
      continue;
    }
    if (*rank == kMaxBroadcastRank) {
      return NotSupported("broadcasting to ", output, " needs more than ", kMaxBroadcastRank, " dimensions");
    }
    size[*rank] = dim;
    for (size_t i = 0; i < inputs.size(); ++i) strides[i * kMaxBroadcastRank + *rank] = StrideAt(inputs[i], axis);
    ++*rank;
  }
  if (*rank == 0) {  // one element
    *rank = 1;
    size[0] = 1;
  }
  return Status::Ok();
}

}  // namespace cudaep::kernels::detail
