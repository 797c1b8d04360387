// Images for convolutions of few channels: blocks of pixels become channels, which come last, filled up with zeros.
//
// Memory bound: a thread makes 16 bytes of one output pixel.
#pragma once

#include "core/data_type.h"
#include "core/status.h"
#include "device/device.h"

namespace cudaep::kernels {

// y [batch, ceil(height / block), ceil(width / block), channels_out] of x [batch, channels, height, width]: channel
// (row * block + column) * channels + c is element [block h + row, block w + column] of channel c, 0 outside of x and
// for the channels that are left. Elements have 2 bytes, channels_out is a multiple of 8.
struct SpaceToChannels {
  int64_t batch = 0, channels = 0, height = 0, width = 0;
  int64_t block = 1, channels_out = 0;
};
Status LaunchSpaceToChannels(const SpaceToChannels& shape, const void* x, void* y, device::Stream stream);

}  // namespace cudaep::kernels
