#include <algorithm>

#include "kernels/common/whole_parts.h"
#include "kernels/fast_divide.h"
#include "kernels/movement/windows_to_channels.h"
#include "kernels/pack.h"

namespace cudaep::kernels {
namespace {

constexpr int kThreads = 256;

struct Args {
  FastDivider packs, windows, rows, channels;  // of output pixels; of what an output channel is
  int64_t width, stride, dilation, pad, first_image;
  uint32_t used;  // output channels that are not filled
  uint32_t threads;
  uint16_t fill;
  bool in_packs;
};

template <class T>
__global__ void __launch_bounds__(kThreads)
    WindowsToChannelsKernel(const T* x, T* y, __grid_constant__ const Args args) {
  constexpr int kElems = PackElems(sizeof(T));
  device::GridDependencyWait();
  const uint32_t thread = blockIdx.x * kThreads + threadIdx.x;
  if (thread >= args.threads) return;
  uint32_t pack, window, row;
  const int64_t image =
      args.first_image +
      args.rows.DivideWithRemainder(
          args.windows.DivideWithRemainder(args.packs.DivideWithRemainder(thread, &pack), &window), &row);
  const int64_t channels = args.channels.divisor, height = args.rows.divisor, first = window * args.stride - args.pad;
  Pack<T, kElems> out;
#pragma unroll
  for (int i = 0; i < kElems; ++i) out.value[i] = static_cast<T>(args.fill);
#pragma unroll
  for (int i = 0; i < kElems; ++i) {
    const uint32_t channel = pack * kElems + static_cast<uint32_t>(i);
    if (channel >= args.used) break;
    uint32_t c;
    const uint32_t tap = args.channels.DivideWithRemainder(channel, &c);
    const int64_t w = first + tap * args.dilation;
    if (w >= 0 && w < args.width) out.value[i] = x[((image * channels + c) * height + row) * args.width + w];
  }
  T* const to = y + (args.first_image * height * args.windows.divisor * args.packs.divisor + thread) * kElems;
  if (args.in_packs) return StorePack(to, out);
#pragma unroll
  for (int i = 0; i < kElems; ++i) to[i] = out.value[i];
}

template <class T>
Status LaunchOf(const WindowsToChannels& s, const void* x, void* y, device::Stream stream) {
  const int64_t packs = s.channels_out / PackElems(sizeof(T)), image_threads = s.height * s.windows * packs;
  if (image_threads == 0) return Status::Ok();
  const auto divider = [](int64_t value) { return FastDivider(static_cast<uint32_t>(value)); };
  Args args{.packs = divider(packs),
            .windows = divider(s.windows),
            .rows = divider(s.height),
            .channels = divider(std::max<int64_t>(s.channels, 1)),
            .width = s.width,
            .stride = s.stride,
            .dilation = s.dilation,
            .pad = s.pad,
            .used = static_cast<uint32_t>(s.channels * s.taps),
            .fill = s.fill};
  args.in_packs = IsAligned(y, kPackBytes);
  return LaunchWholeParts(s.batch, image_threads, kThreads,
                          [&](const device::LaunchConfig& config, int64_t image, uint32_t threads) {
                            args.first_image = image;
                            args.threads = threads;
                            return device::Launch(WindowsToChannelsKernel<T>, config, stream, static_cast<const T*>(x),
                                                  static_cast<T*>(y), args);
                          });
}

}  // namespace

Status LaunchWindowsToChannels(const WindowsToChannels& shape, const void* x, void* y, device::Stream stream) {
  return shape.elem_bytes == 1 ? LaunchOf<uint8_t>(shape, x, y, stream) : LaunchOf<uint16_t>(shape, x, y, stream);
}

}  // namespace cudaep::kernels
