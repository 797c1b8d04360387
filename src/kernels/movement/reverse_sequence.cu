#include "kernels/movement/gather_nd.h"
#include "kernels/movement/row_source.cuh"

namespace cudaep::kernels {
namespace {

template <class Index>
struct ReversedRows {
  const int64_t* lengths;
  IndexDivider<Index> second;
  int64_t first;
  int64_t time_first;

  __device__ __forceinline__ int64_t operator()(Index number) const {
    Index inner;
    const auto outer = static_cast<int64_t>(second.DivideWithRemainder(number, &inner));
    const auto seconds = static_cast<int64_t>(second.divisor);
    const int64_t time = time_first != 0 ? outer : static_cast<int64_t>(inner);
    const int64_t batch = time_first != 0 ? static_cast<int64_t>(inner) : outer;
    const int64_t length = device::Min(lengths[batch], time_first != 0 ? first : seconds);
    const int64_t from = time < length ? length - 1 - time : time;
    return time_first != 0 ? from * seconds + batch : batch * seconds + from;
  }
};

}  // namespace

Status LaunchReverseSequence(const ReverseSequences& shape, const void* data, const int64_t* lengths, void* out,
                             device::Stream stream) {
  return LaunchMappedRows(
      shape.first * shape.second, shape.row_bytes, data, out,
      [&]<class Index>() {
        return ReversedRows<Index>{lengths, IndexDivider<Index>(shape.second), shape.first, shape.time_first};
      },
      stream);
}

}  // namespace cudaep::kernels
