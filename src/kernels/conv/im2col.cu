#include <algorithm>

#include "core/checked_math.h"
#include "device/launch.h"
#include "kernels/conv/im2col.h"

namespace cudaep::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostRowBlocks = 65535;  // of grid.y

// The input coordinate that `tap` of output `out` meets along dimension d, or -1.
__device__ __forceinline__ int64_t SourceOf(const Im2col& s, int d, int64_t out, int64_t tap) {
  int64_t in;
  if (s.transposed) {
    const int64_t at = out + s.pad[d] - tap * s.dilation[d];
    if (at < 0 || at % s.stride[d] != 0) return -1;
    in = at / s.stride[d];
  } else {
    in = out * s.stride[d] - s.pad[d] + tap * s.dilation[d];
  }
  return in >= 0 && in < s.in[d] ? in : -1;
}

// A thread has one pixel and walks down the rows of all images; a row's channel and tap are the same for the whole
// block.
template <class T>
__global__ void __launch_bounds__(kThreads)
    Im2colKernel(const T* x, T* columns, Im2col s, int64_t first_pixel, int64_t pixels, const T* outside) {
  device::GridDependencyWait();
  const int64_t pixel = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (pixel >= pixels) return;
  const int64_t at = first_pixel + pixel;
  const int64_t out2 = at % s.out[2], out1 = at / s.out[2] % s.out[1], out0 = at / s.out[2] / s.out[1];
  const int64_t taps = s.kernel[0] * s.kernel[1] * s.kernel[2];
  const T nothing = outside == nullptr ? T{} : *outside;
  const int64_t rows = s.channels * taps;
  for (int64_t line = blockIdx.y; line < s.images * rows; line += gridDim.y) {
    const int64_t image = line / rows, row = line - image * rows;
    const int64_t tap = row % taps;
    const int64_t i0 = SourceOf(s, 0, out0, tap / s.kernel[2] / s.kernel[1]);
    const int64_t i1 = SourceOf(s, 1, out1, tap / s.kernel[2] % s.kernel[1]);
    const int64_t i2 = SourceOf(s, 2, out2, tap % s.kernel[2]);
    T value = nothing;
    if (i0 >= 0 && i1 >= 0 && i2 >= 0) {
      const int64_t channel = image * s.channels + row / taps;
      value = x[((channel * s.in[0] + i0) * s.in[1] + i1) * s.in[2] + i2];
    }
    columns[line * pixels + pixel] = value;
  }
}

template <class T>
Status LaunchAs(const Im2col& shape, const void* x, void* columns, int64_t first_pixel, int64_t pixels,
                device::Stream stream, const void* outside) {
  const int64_t rows = shape.images * shape.channels * shape.kernel[0] * shape.kernel[1] * shape.kernel[2];
  if (rows == 0 || pixels == 0) return Status::Ok();
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(CeilDiv<int64_t>(pixels, kThreads));
  config.grid.y = static_cast<unsigned>(std::min(rows, kMostRowBlocks));
  config.block.x = kThreads;
  config.programmatic = true;
  return device::Launch(Im2colKernel<T>, config, stream, static_cast<const T*>(x), static_cast<T*>(columns), shape,
                        first_pixel, pixels, static_cast<const T*>(outside));
}

}  // namespace

Status LaunchIm2col(const Im2col& shape, size_t element_bytes, const void* x, void* columns, int64_t first_pixel,
                    int64_t pixels, device::Stream stream, const void* outside) {
  switch (element_bytes) {
    case 1:
      return LaunchAs<uint8_t>(shape, x, columns, first_pixel, pixels, stream, outside);
    case 2:
      return LaunchAs<uint16_t>(shape, x, columns, first_pixel, pixels, stream, outside);
    case 4:
      return LaunchAs<uint32_t>(shape, x, columns, first_pixel, pixels, stream, outside);
    case 8:
      return LaunchAs<uint64_t>(shape, x, columns, first_pixel, pixels, stream, outside);
    default:
      return Internal("column matrix of ", element_bytes, "-byte elements");
  }
}

}  // namespace cudaep::kernels
