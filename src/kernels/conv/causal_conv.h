// Depthwise convolution along a sequence that sees the present and the past alone, with what is left of the past as a
// state: com.microsoft's CausalConvWithState.
//
// Memory bound: a thread has an output or an element of the state at a time, and the first-level cache serves the taps.
#pragma once

#include <cstdint>

#include "core/data_type.h"
#include "core/status.h"
#include "device/device.h"

namespace cudaep::kernels {

// Elements between neighbours.
struct CausalStrides {
  int64_t entry = 0, channel = 0, step = 0;
};

struct CausalConv {
  DataType type = DataType::kFloat;  // kFloatTypesNoDouble
  bool silu = false;
  bool channels_last = false, state_channels_last = false;  // which neighbours threads take
  uint8_t unused[4] = {};  // whole words, which the simulated device takes for addresses
  int64_t batch = 0, channels = 0, length = 0;
  int64_t taps = 0, dilation = 1;
  int64_t history = 0;   // steps in a state, at least (taps - 1) * dilation
  int64_t window = 1;    // states that are written: those after the last steps, zeros before them; the last one is read
  int64_t captured = 0;  // first steps whose input is written to `updates` [batch, captured, channels], zeros behind
  CausalStrides x, y, state;  // a state's are the same for past and present

  constexpr int64_t state_elems() const { return batch * channels * history; }
};

struct CausalConvPointers {
  const void *x = nullptr, *w = nullptr, *bias = nullptr, *past = nullptr;  // w [channels, taps]; the last two or null
  void *y = nullptr, *present = nullptr, *updates = nullptr;                // null: not wanted
};

// One launch. `past` and `present` may not share memory. Sizes up to 2^31 elements each, beyond kNotSupported.
Status LaunchCausalConv(const CausalConv& conv, const CausalConvPointers& at, device::Stream stream);

}  // namespace cudaep::kernels
