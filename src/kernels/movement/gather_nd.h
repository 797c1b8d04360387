// Picks rows of a tensor by tuples of indices. A tuple with an index outside its axis is never followed: zeros are
// written in its place, as in kernels/movement/gather.h.
#pragma once

#include "kernels/movement/index_tuples.h"

namespace cudaep::kernels {

// data is [batches, rows of the tuples' axes, row], the output [batches, count, row].
struct GatherNd {
  IndexTuples tuples;
  int64_t batches = 0;
  int64_t batch_rows = 0;
  int64_t count = 0;
  int64_t row_bytes = 0;
};
Status LaunchGatherNd(const GatherNd& gather, const void* data, void* out, device::Stream stream);

// Reverses the beginning of each sequence along an axis. data is [first, second, row]: the time axis is one of the two,
// the batch the other. `lengths` has an int64 for each batch entry, taken as the nearest possible one.
struct ReverseSequences {
  int64_t first = 0, second = 0;
  int64_t row_bytes = 0;
  int64_t time_first = 1;  // 0: the second dimension is the time
};
Status LaunchReverseSequence(const ReverseSequences& shape, const void* data, const int64_t* lengths, void* out,
                             device::Stream stream);

}  // namespace cudaep::kernels
