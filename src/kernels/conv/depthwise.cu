#include <algorithm>

#include "core/checked_math.h"
#include "core/data_type_traits.h"
#include "device/launch.h"
#include "kernels/conv/depthwise.h"
#include "kernels/fast_divide.h"
#include "kernels/index_limit.h"

namespace cudaep::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kRows = 4;  // output rows a thread computes in the fast variants

struct DepthwiseArgs {
  DepthwiseConv conv;
  FastDivider columns;     // output columns
  FastDivider row_groups;  // groups of output rows
  FastDivider out_channels;
  FastDivider multiplier;
  uint32_t first_plane;  // planes of earlier launches
  uint32_t threads;
};

// Where one thread works.
struct Place {
  uint32_t channel;
  int column, row;
  int64_t in_plane, out_plane;
};

__device__ __forceinline__ Place Locate(const DepthwiseArgs& args, uint32_t thread, int rows) {
  uint32_t column, group, channel;
  const uint32_t plane =
      args.row_groups.DivideWithRemainder(args.columns.DivideWithRemainder(thread, &column), &group) + args.first_plane;
  const uint32_t image = args.out_channels.DivideWithRemainder(plane, &channel);
  const int64_t in_plane = static_cast<int64_t>(image) * args.conv.in_channels + args.multiplier.Divide(channel);
  return {channel, static_cast<int>(column), static_cast<int>(group) * rows, in_plane * args.conv.in_h * args.conv.in_w,
          static_cast<int64_t>(plane) * args.conv.out_h * args.conv.out_w};
}

// Rows of a square kernel without dilation at one stride; all indices into `weight` and `sum` are constants.
template <int kKernel, int kStride, class T>
__device__ __forceinline__ void SlideDown(const DepthwiseConv& conv, const Place& at, const T* x,
                                          const float (&weight)[kKernel * kKernel], float (&sum)[kRows]) {
  const int left = at.column * kStride - conv.pad_left;
  const int top = at.row * kStride - conv.pad_top;
#pragma unroll
  for (int i = 0; i < (kRows - 1) * kStride + kKernel; ++i) {
    if (top + i < 0 || top + i >= conv.in_h) continue;
    const T* line = x + static_cast<int64_t>(top + i) * conv.in_w + left;
    float value[kKernel];
#pragma unroll
    for (int k = 0; k < kKernel; ++k) value[k] = left + k >= 0 && left + k < conv.in_w ? Load(line[k]) : 0.0f;
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      const int tap = i - row * kStride;
      if (tap < 0 || tap >= kKernel) continue;
#pragma unroll
      for (int k = 0; k < kKernel; ++k) sum[row] += weight[tap * kKernel + k] * value[k];
    }
  }
}

// Square kernel, no dilation, stride 1 or 2 in both dimensions.
template <int kKernel, class T>
__global__ void __launch_bounds__(kThreads)
    DepthwiseKernel(const T* x, const T* w, const T* bias, T* y, DepthwiseArgs args) {
  device::GridDependencyWait();
  const uint32_t thread = blockIdx.x * kThreads + threadIdx.x;
  if (thread >= args.threads) return;
  const DepthwiseConv& conv = args.conv;
  const Place at = Locate(args, thread, kRows);
  float weight[kKernel * kKernel];
  const T* channel_weights = w + static_cast<int64_t>(at.channel) * (kKernel * kKernel);
#pragma unroll
  for (int i = 0; i < kKernel * kKernel; ++i) weight[i] = Load(channel_weights[i]);
  float sum[kRows];
  const float start = bias == nullptr ? 0.0f : Load(bias[at.channel]);
#pragma unroll
  for (int row = 0; row < kRows; ++row) sum[row] = start;
  if (conv.stride_h == 1) {
    SlideDown<kKernel, 1>(conv, at, x + at.in_plane, weight, sum);
  } else {
    SlideDown<kKernel, 2>(conv, at, x + at.in_plane, weight, sum);
  }
  T* out = y + at.out_plane + static_cast<int64_t>(at.row) * conv.out_w + at.column;
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
    if (at.row + row < conv.out_h) out[static_cast<int64_t>(row) * conv.out_w] = Store<T>(sum[row]);
  }
}

// Any kernel, stride and dilation: one output a thread.
template <class T>
__global__ void __launch_bounds__(kThreads)
    DepthwiseAnyKernel(const T* x, const T* w, const T* bias, T* y, DepthwiseArgs args) {
  device::GridDependencyWait();
  const uint32_t thread = blockIdx.x * kThreads + threadIdx.x;
  if (thread >= args.threads) return;
  const DepthwiseConv& conv = args.conv;
  const Place at = Locate(args, thread, 1);
  const T* weight = w + static_cast<int64_t>(at.channel) * conv.kernel_h * conv.kernel_w;
  float sum = bias == nullptr ? 0.0f : Load(bias[at.channel]);
  for (int i = 0; i < conv.kernel_h; ++i) {
    const int row = at.row * conv.stride_h - conv.pad_top + i * conv.dilation_h;
    if (row < 0 || row >= conv.in_h) continue;
    const T* line = x + at.in_plane + static_cast<int64_t>(row) * conv.in_w;
    for (int k = 0; k < conv.kernel_w; ++k) {
      const int column = at.column * conv.stride_w - conv.pad_left + k * conv.dilation_w;
      if (column >= 0 && column < conv.in_w) sum += Load(weight[i * conv.kernel_w + k]) * Load(line[column]);
    }
  }
  y[at.out_plane + static_cast<int64_t>(at.row) * conv.out_w + at.column] = Store<T>(sum);
}

bool IsSquareAtStride1Or2(const DepthwiseConv& c) {
  return c.kernel_h == c.kernel_w && c.stride_h == c.stride_w && c.stride_h <= 2 && c.dilation_h == 1 &&
         c.dilation_w == 1;
}

template <class T>
Status LaunchAs(const DepthwiseConv& conv, const void* x, const void* w, const void* bias, void* y,
                device::Stream stream) {
  const bool square = IsSquareAtStride1Or2(conv);
  const auto kernel = square && conv.kernel_h == 3   ? DepthwiseKernel<3, T>
                      : square && conv.kernel_h == 5 ? DepthwiseKernel<5, T>
                                                     : DepthwiseAnyKernel<T>;
  const int rows = square && (conv.kernel_h == 3 || conv.kernel_h == 5) ? kRows : 1;
  const int64_t row_groups = CeilDiv(conv.out_h, rows);
  const int64_t out_channels = static_cast<int64_t>(conv.in_channels) * conv.multiplier;
  DepthwiseArgs args{};
  args.conv = conv;
  args.columns = FastDivider(static_cast<uint32_t>(conv.out_w));
  args.row_groups = FastDivider(static_cast<uint32_t>(row_groups));
  args.out_channels = FastDivider(static_cast<uint32_t>(out_channels));
  args.multiplier = FastDivider(static_cast<uint32_t>(conv.multiplier));
  // Thread numbers stay below 2^31: as many whole planes a launch as fit.
  const int64_t most_threads = index_limit + 1 - kThreads;
  const int64_t plane_threads = row_groups * conv.out_w;
  const int64_t planes = conv.batch * out_channels;
  const int64_t planes_per_launch = std::max<int64_t>(1, most_threads / plane_threads);
  for (int64_t plane = 0; plane < planes; plane += planes_per_launch) {
    args.first_plane = static_cast<uint32_t>(plane);
    args.threads = static_cast<uint32_t>(std::min(planes - plane, planes_per_launch) * plane_threads);
    device::LaunchConfig config;
    config.grid.x = CeilDiv<unsigned>(args.threads, kThreads);
    config.block.x = kThreads;
    config.programmatic = true;
    CUDAEP_RETURN_IF_ERROR(device::Launch(kernel, config, stream, static_cast<const T*>(x), static_cast<const T*>(w),
                                          static_cast<const T*>(bias), static_cast<T*>(y), args));
  }
  return Status::Ok();
}

}  // namespace

Status LaunchDepthwiseConv(const DepthwiseConv& conv, const void* x, const void* w, const void* bias, void* y,
                           device::Stream stream) {
  const auto launch = VisitType<kDepthwiseTypes, decltype(&LaunchAs<float>)>(conv.type, nullptr,
                                                                             [&]<class T>() { return &LaunchAs<T>; });
  if (launch == nullptr) return NotSupported("depthwise convolution of element type ", DataTypeName(conv.type));
  return launch(conv, x, w, bias, y, stream);
}

}  // namespace cudaep::kernels
