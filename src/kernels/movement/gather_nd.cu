#include "kernels/movement/gather_nd.h"
#include "kernels/movement/index_tuples.cuh"
#include "kernels/movement/row_source.cuh"

namespace cudaep::kernels {
namespace {

template <class Index>
struct TupleRows {
  IndexTuples tuples;
  IndexDivider<Index> count;
  int64_t batch_rows;

  __device__ __forceinline__ int64_t operator()(Index number) const {
    const int64_t row = RowOfTuple(tuples, static_cast<int64_t>(number));
    Index within;
    const Index batch = count.DivideWithRemainder(number, &within);
    return row < 0 ? row : static_cast<int64_t>(batch) * batch_rows + row;
  }
};

}  // namespace

Status LaunchGatherNd(const GatherNd& gather, const void* data, void* out, device::Stream stream) {
  return LaunchMappedRows(
      gather.batches * gather.count, gather.row_bytes, data, out,
      [&]<class Index>() {
        return TupleRows<Index>{gather.tuples, IndexDivider<Index>(gather.count), gather.batch_rows};
      },
      stream);
}

}  // namespace cudaep::kernels
