// What windows sliding over an input row need for one thread's neighbouring outputs: 16 bytes of the row, and the few
// elements that windows reach to on both sides of them.
#pragma once

#include "device/launch.h"
#include "kernels/pack.h"

namespace cudaep::kernels {

// A square window without dilation: its taps, its step, and the padding before its row.
template <int kTaps_, int kStep_, int kPad_>
struct WindowForm {
  static constexpr int kTaps = kTaps_, kStep = kStep_, kPad = kPad_;
};

template <class T, class Form>
struct RowSegment {
  static constexpr int kPack = PackElems(sizeof(T)), kOutputs = kPack / Form::kStep;
  static constexpr int kWidth = (kOutputs - 1) * Form::kStep + Form::kTaps;
  T value[kWidth];  // from the first output's first tap on

  __device__ __forceinline__ void Fill(T with) {
#pragma unroll
    for (T& element : value) element = with;
  }

  // Replaces what is inside the row. The first output's window starts kPad before `column`, a multiple of kPack; with
  // `packs` the row is a whole number of packs.
  __device__ __forceinline__ void Read(const T* row, int column, int width, bool packs) {
    const bool pack = packs && column < width;
    if (pack) {
      const Pack<T, kPack> middle = LoadPack<kPack>(row + column);
#pragma unroll
      for (int k = 0; k < kPack; ++k) {
        if (Form::kPad + k < kWidth) value[Form::kPad + k] = middle.value[k];
      }
    }
#pragma unroll
    for (int k = 0; k < kWidth; ++k) {
      const bool in_pack = k >= Form::kPad && k < Form::kPad + kPack;
      const int at = column - Form::kPad + k;
      if ((!in_pack || !pack) && at >= 0 && at < width) value[k] = row[at];
    }
  }
};

}  // namespace cudaep::kernels
