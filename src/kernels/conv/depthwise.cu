#include "core/checked_math.h"
#include "core/data_type_traits.h"
#include "device/launch.h"
#include "kernels/common/row_segment.cuh"
#include "kernels/common/whole_parts.h"
#include "kernels/conv/depthwise.h"
#include "kernels/epilogue/activate.cuh"
#include "kernels/fast_divide.h"

namespace cudaep::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kRows = 4;  // output rows a thread computes in the variants that slide

// Output rows a thread computes in the variants with packs.
template <class Form>
constexpr int PackRows() {
  return 4 / Form::kStep;
}

struct DepthwiseArgs {
  DepthwiseConv conv;
  FastDivider columns;     // groups of output columns
  FastDivider row_groups;  // groups of output rows
  FastDivider out_channels;
  FastDivider multiplier;
  uint32_t first_plane;  // planes of earlier launches
  uint32_t threads;
  bool in_packs, out_packs;
};

// Where one thread works.
struct Place {
  uint32_t channel;
  int column, row;  // column is the number of a group
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
    DepthwiseKernel(const T* x, const T* w, const T* bias, T* y, __grid_constant__ const DepthwiseArgs args) {
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
  WithActivation<float>(conv.activation, conv.parameters, [&](auto function) {
#pragma unroll
    for (int row = 0; row < kRows; ++row) sum[row] = function(sum[row]);
  });
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
    if (at.row + row < conv.out_h) out[static_cast<int64_t>(row) * conv.out_w] = Store<T>(sum[row]);
  }
}

// Windows of one form: a thread computes neighbouring outputs of a few rows, and reads input rows in packs.
template <class T, class Form>
__global__ void __launch_bounds__(kThreads)
    DepthwisePacksKernel(const T* x, const T* w, const T* bias, T* y, __grid_constant__ const DepthwiseArgs args) {
  using Segment = RowSegment<T, Form>;
  constexpr int kTaps = Form::kTaps, kStep = Form::kStep, kOutputs = Segment::kOutputs, kLines = PackRows<Form>();
  device::GridDependencyWait();
  const uint32_t thread = blockIdx.x * kThreads + threadIdx.x;
  if (thread >= args.threads) return;
  const DepthwiseConv& conv = args.conv;
  const Place at = Locate(args, thread, kLines);
  float weight[kTaps * kTaps];
  const T* channel_weights = w + static_cast<int64_t>(at.channel) * (kTaps * kTaps);
#pragma unroll
  for (int i = 0; i < kTaps * kTaps; ++i) weight[i] = Load(channel_weights[i]);
  const float start = bias == nullptr ? 0.0f : Load(bias[at.channel]);
  float sum[kLines][kOutputs];
#pragma unroll
  for (int line = 0; line < kLines; ++line) {
#pragma unroll
    for (int o = 0; o < kOutputs; ++o) sum[line][o] = start;
  }
  const int top = at.row * kStep - conv.pad_top, first = at.column * kOutputs;
#pragma unroll
  for (int i = 0; i < (kLines - 1) * kStep + kTaps; ++i) {
    Segment segment;
    segment.Fill(T{});
    if (top + i >= 0 && top + i < conv.in_h) {
      segment.Read(x + at.in_plane + static_cast<int64_t>(top + i) * conv.in_w, first * kStep, conv.in_w,
                   args.in_packs);
    }
#pragma unroll
    for (int line = 0; line < kLines; ++line) {
      const int tap = i - line * kStep;
      if (tap < 0 || tap >= kTaps) continue;
#pragma unroll
      for (int o = 0; o < kOutputs; ++o) {
#pragma unroll
        for (int k = 0; k < kTaps; ++k) {
          sum[line][o] += weight[tap * kTaps + k] * Load(segment.value[o * kStep + k]);
        }
      }
    }
  }
  WithActivation<float>(conv.activation, conv.parameters, [&](auto function) {
#pragma unroll
    for (int line = 0; line < kLines; ++line) {
#pragma unroll
      for (int o = 0; o < kOutputs; ++o) sum[line][o] = function(sum[line][o]);
    }
  });
#pragma unroll
  for (int line = 0; line < kLines; ++line) {
    if (at.row + line >= conv.out_h) break;
    T* out = y + at.out_plane + static_cast<int64_t>(at.row + line) * conv.out_w + first;
    Pack<T, kOutputs> pack;
#pragma unroll
    for (int o = 0; o < kOutputs; ++o) pack.value[o] = Store<T>(sum[line][o]);
    if (args.out_packs) {
      StorePack(out, pack);
      continue;
    }
#pragma unroll
    for (int o = 0; o < kOutputs; ++o) {
      if (first + o < conv.out_w) out[o] = pack.value[o];
    }
  }
}

// Any kernel, stride and dilation: one output a thread.
template <class T>
__global__ void __launch_bounds__(kThreads)
    DepthwiseAnyKernel(const T* x, const T* w, const T* bias, T* y, __grid_constant__ const DepthwiseArgs args) {
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
  sum = Activate(conv.activation, conv.parameters, sum);
  y[at.out_plane + static_cast<int64_t>(at.row) * conv.out_w + at.column] = Store<T>(sum);
}

bool IsSquareAtStride1Or2(const DepthwiseConv& c) {
  return c.kernel_h == c.kernel_w && c.stride_h == c.stride_w && c.stride_h <= 2 && c.dilation_h == 1 &&
         c.dilation_w == 1;
}

template <class T>
using Kernel = void (*)(const T*, const T*, const T*, T*, DepthwiseArgs);

// A kernel, and how many outputs a thread of it computes.
template <class T>
struct Variant {
  Kernel<T> kernel;
  int columns, rows;
};

template <class T, class... Forms>
Variant<T> Choose(const DepthwiseConv& conv) {
  const bool square = IsSquareAtStride1Or2(conv);
  Variant<T> choice{DepthwiseAnyKernel<T>, 1, 1};
  if (square && conv.kernel_h == 3) choice = {DepthwiseKernel<3, T>, 1, kRows};
  if (square && conv.kernel_h == 5) choice = {DepthwiseKernel<5, T>, 1, kRows};
  const auto attempt = [&]<class Form>(Form) {
    if (!square || conv.kernel_h != Form::kTaps || conv.stride_h != Form::kStep || conv.pad_left != Form::kPad) return;
    choice = {DepthwisePacksKernel<T, Form>, RowSegment<T, Form>::kOutputs, PackRows<Form>()};
  };
  (attempt(Forms{}), ...);
  return choice;
}

template <class T>
Status LaunchAs(const DepthwiseConv& conv, const void* x, const void* w, const void* bias, void* y,
                device::Stream stream) {
  const Variant<T> variant = Choose<T, WindowForm<3, 1, 1>, WindowForm<3, 2, 1>, WindowForm<3, 2, 0>,
                                    WindowForm<5, 1, 2>, WindowForm<5, 2, 2>, WindowForm<5, 2, 1>>(conv);
  const int64_t row_groups = CeilDiv(conv.out_h, variant.rows), columns = CeilDiv(conv.out_w, variant.columns);
  const int64_t out_channels = static_cast<int64_t>(conv.in_channels) * conv.multiplier;
  DepthwiseArgs args{};
  args.conv = conv;
  args.columns = FastDivider(static_cast<uint32_t>(columns));
  args.row_groups = FastDivider(static_cast<uint32_t>(row_groups));
  args.out_channels = FastDivider(static_cast<uint32_t>(out_channels));
  args.multiplier = FastDivider(static_cast<uint32_t>(conv.multiplier));
  args.in_packs = conv.in_w % PackElems(sizeof(T)) == 0 && IsAligned(x, kPackBytes);
  args.out_packs = conv.out_w % variant.columns == 0 && IsAligned(y, static_cast<size_t>(variant.columns) * sizeof(T));
  return LaunchWholeParts(conv.batch * out_channels, row_groups * columns, kThreads,
                          [&](const device::LaunchConfig& config, int64_t plane, uint32_t threads) {
                            args.first_plane = static_cast<uint32_t>(plane);
                            args.threads = threads;
                            return device::Launch(variant.kernel, config, stream, static_cast<const T*>(x),
                                                  static_cast<const T*>(w), static_cast<const T*>(bias),
                                                  static_cast<T*>(y), args);
                          });
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
