#include "core/checked_math.h"
#include "core/data_type_traits.h"
#include "device/launch.h"
#include "kernels/conv/col2im.h"

namespace cudaep::kernels {
namespace {

constexpr int kThreads = 256;

template <class T>
__global__ void __launch_bounds__(kThreads) Col2ImKernel(__grid_constant__ const Col2Im p, int64_t elems, int64_t taps,
                                                         int64_t blocks, const T* columns, T* image) {
  device::GridDependencyWait();
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= elems) return;
  int64_t position[kMaxCol2ImRank];  // in the padded image
  int64_t rest = i;
  for (int d = p.rank - 1; d >= 0; --d) {
    const int64_t outer = rest / p.image[d];
    position[d] = rest - outer * p.image[d] + p.pad[d];
    rest = outer;
  }
  const T* const channel = columns + rest * taps * blocks;
  ComputeType<T> sum = 0;
  for (int64_t tap = 0; tap < taps; ++tap) {
    int64_t number = tap, block = 0, size = 1;
    bool inside = true;
    for (int d = p.rank - 1; d >= 0 && inside; --d) {
      const int64_t outer = number / p.block[d];
      const int64_t start = position[d] - (number - outer * p.block[d]) * p.dilation[d];
      const int64_t along = start / p.stride[d];
      inside = start >= 0 && along * p.stride[d] == start && along < p.blocks[d];
      block += along * size;
      size *= p.blocks[d];
      number = outer;
    }
    if (inside) sum = static_cast<ComputeType<T>>(sum + Load(channel[tap * blocks + block]));
  }
  image[i] = Store<T>(sum);
}

}  // namespace

Status LaunchCol2Im(const Col2Im& shape, const void* columns, void* image, device::Stream stream) {
  int64_t elems = shape.images * shape.channels, taps = 1, blocks = 1;
  for (int d = 0; d < shape.rank; ++d) {
    elems *= shape.image[d];
    taps *= shape.block[d];
    blocks *= shape.blocks[d];
  }
  if (elems == 0) return Status::Ok();
  const device::LaunchConfig config{
      .grid = {static_cast<unsigned>(CeilDiv<int64_t>(elems, kThreads))}, .block = {kThreads}, .programmatic = true};
  return VisitType<kNumericTypes>(shape.type, NotSupported("element type ", DataTypeName(shape.type)), [&]<class T>() {
    return device::Launch(Col2ImKernel<T>, config, stream, shape, elems, taps, blocks, static_cast<const T*>(columns),
                          static_cast<T*>(image));
  });
}

}  // namespace cudaep::kernels
