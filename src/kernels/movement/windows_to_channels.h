// Images for convolutions of few channels: each window along the rows becomes one pixel, whose channels come last,
// filled up.
//
// Memory bound: a thread makes 16 bytes of one output pixel.
#pragma once

#include "core/data_type.h"
#include "core/status.h"
#include "device/device.h"

namespace cudaep::kernels {

// y [batch, height, windows, channels_out] of x [batch, channels, height, width]: channel tap * channels + c of window
// v is element [h, v * stride + tap * dilation - pad] of channel c, `fill` outside of x and for the channels that are
// left. channels_out holds whole packs of 16 bytes.
struct WindowsToChannels {
  int elem_bytes = 2;  // or 1
  uint16_t fill = 0;   // the element's bits
  int64_t batch = 0, channels = 0, height = 0, width = 0;
  int64_t windows = 0, taps = 1, stride = 1, dilation = 1, pad = 0;
  int64_t channels_out = 0;
};
Status LaunchWindowsToChannels(const WindowsToChannels& shape, const void* x, void* y, device::Stream stream);

}  // namespace cudaep::kernels
