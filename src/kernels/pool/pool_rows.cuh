// Small square windows over two spatial dimensions, as images are pooled: a thread computes neighbouring outputs of a
// row, as many as the windows over 16 bytes of an input row have, and joins input rows before it joins columns.
#pragma once

#include <optional>

#include "core/data_type_traits.h"
#include "kernels/common/row_segment.cuh"
#include "kernels/pool/pool_window.cuh"

namespace cudaep::kernels {

struct PoolRowsArgs {
  int32_t in_h, in_w, out_h, out_w;
  int32_t pad_top, pad_bottom, pad_right;
  FastDivider groups, rows;  // a group is a thread's outputs
  uint32_t threads;
  bool in_packs, out_packs;
};

template <class T, class Form, class Join>
__global__ void __launch_bounds__(kPoolThreads)
    PoolRowsKernel(const T* x, T* y, Join join, __grid_constant__ const PoolRowsArgs args) {
  using C = ComputeType<T>;
  using Segment = RowSegment<T, Form>;
  const uint32_t thread = blockIdx.x * kPoolThreads + threadIdx.x;
  device::GridDependencyWait();
  if (thread >= args.threads) return;
  uint32_t group, out_row;
  const uint32_t plane = args.rows.DivideWithRemainder(args.groups.DivideWithRemainder(thread, &group), &out_row);
  const int column = static_cast<int>(group) * Segment::kOutputs * Form::kStep;
  const int row = static_cast<int>(out_row) * Form::kStep - args.pad_top;
  const T* from = x + static_cast<int64_t>(plane) * args.in_h * args.in_w;

  Segment segment[Form::kTaps];  // all loads come before the first use
#pragma unroll
  for (int i = 0; i < Form::kTaps; ++i) {
    segment[i].Fill(Store<T>(Join::template kNeutral<C>));
    if (row + i < 0 || row + i >= args.in_h) continue;
    segment[i].Read(from + (row + i) * args.in_w, column, args.in_w, args.in_packs);
  }
  C joined[Segment::kWidth];
#pragma unroll
  for (int k = 0; k < Segment::kWidth; ++k) {
    joined[k] = Load(segment[0].value[k]);
#pragma unroll
    for (int i = 1; i < Form::kTaps; ++i) joined[k] = join(joined[k], Load(segment[i].value[k]));
  }
  Pack<T, Segment::kOutputs> result;
#pragma unroll
  for (int o = 0; o < Segment::kOutputs; ++o) {
    C value = joined[o * Form::kStep];
#pragma unroll
    for (int k = 1; k < Form::kTaps; ++k) value = join(value, joined[o * Form::kStep + k]);
    const int start = column + o * Form::kStep - Form::kPad;
    result.value[o] = Store<T>(join.template Finish<Form>(value, row, start, args));
  }
  const int first = static_cast<int>(group) * Segment::kOutputs;
  T* to = y + (static_cast<int64_t>(plane) * args.out_h + out_row) * args.out_w + first;
  if (args.out_packs) {
    StorePack<Segment::kOutputs>(to, result);
    return;
  }
#pragma unroll
  for (int o = 0; o < Segment::kOutputs; ++o) {
    if (first + o < args.out_w) to[o] = result.value[o];
  }
}

template <class T, class Form, class Join>
Status LaunchPoolRows(const PoolShape& s, const Join& join, const void* x, void* y, device::Stream stream,
                      bool* launched) {
  constexpr int kOutputs = RowSegment<T, Form>::kOutputs;
  const int64_t groups = CeilDiv(s.out[2], kOutputs);
  int64_t threads = 0;
  if (!CheckedMultiply(groups * s.out[1], s.planes, &threads) || !FitsIndex(threads + kPoolThreads)) {
    return Status::Ok();
  }
  *launched = true;
  if (threads == 0) return Status::Ok();
  const PoolRowsArgs args = {.in_h = s.in[1],
                             .in_w = s.in[2],
                             .out_h = s.out[1],
                             .out_w = s.out[2],
                             .pad_top = s.pad_begin[1],
                             .pad_bottom = s.pad_end[1],
                             .pad_right = s.pad_end[2],
                             .groups = FastDivider(static_cast<uint32_t>(groups)),
                             .rows = FastDivider(static_cast<uint32_t>(s.out[1])),
                             .threads = static_cast<uint32_t>(threads),
                             .in_packs = s.in[2] % PackElems(sizeof(T)) == 0 && IsAligned(x, kPackBytes),
                             .out_packs = s.out[2] % kOutputs == 0 && IsAligned(y, kOutputs * sizeof(T))};
  device::LaunchConfig config;
  config.grid.x = CeilDiv<unsigned>(args.threads, kPoolThreads);
  config.block.x = kPoolThreads;
  config.programmatic = true;
  return device::Launch(PoolRowsKernel<T, Form, Join>, config, stream, static_cast<const T*>(x), static_cast<T*>(y),
                        join, args);
}

// Whether the shape is of the form, and every window meets the input.
template <class Form>
bool IsOfForm(const PoolShape& s) {
  if (s.in[0] != 1 || s.out[0] != 1 || s.kernel[0] != 1 || s.pad_begin[0] != 0) return false;
  if (s.pad_begin[2] != Form::kPad) return false;
  for (int d = 1; d < 3; ++d) {
    if (s.kernel[d] != Form::kTaps || s.stride[d] != Form::kStep || s.dilation[d] != 1) return false;
    if (s.pad_begin[d] >= Form::kTaps || (s.out[d] - 1) * Form::kStep - s.pad_begin[d] >= s.in[d]) return false;
  }
  return true;
}

// Launches with the first of the forms that fits; `*launched` tells whether one did.
template <class T, class Form, class... Others, class Join>
Status LaunchFirstForm(const PoolShape& shape, const Join& join, const void* x, void* y, device::Stream stream,
                       bool* launched) {
  if (IsOfForm<Form>(shape)) return LaunchPoolRows<T, Form>(shape, join, x, y, stream, launched);
  if constexpr (sizeof...(Others) != 0) return LaunchFirstForm<T, Others...>(shape, join, x, y, stream, launched);
  return Status::Ok();
}

// `*launched` stays false where the form of the window, the type or the size wants the kernel of any window.
Status LaunchMaxPoolRows(const PoolShape& shape, const void* x, void* y, device::Stream stream, bool* launched);
Status LaunchAveragePoolRows(const PoolShape& shape, bool count_padding, const void* x, void* y, device::Stream stream,
                             bool* launched);

}  // namespace cudaep::kernels
