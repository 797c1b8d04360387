// Images for patch embeddings, convolutions whose windows lie side by side: each patch becomes one pixel, whose
// channels come last, filled up with zeros. A product with the weights as they are is all that is left.
//
// Memory bound: a thread makes 16 bytes of one output pixel, of pieces of the image's rows.
#pragma once

#include "core/data_type.h"
#include "core/status.h"
#include "device/device.h"

namespace cudaep::kernels {

// y [batch, height / patch_h, width / patch_w, channels_out] of 16-bit elements, x [batch, channels, height, width]:
// channel (c * patch_h + row) * patch_w + column is that element of the patch, the rest is 0. What is left of the image
// beside whole patches is not read. channels_out holds whole packs of 16 bytes.
struct PatchesToChannels {
  int64_t batch = 0, channels = 0, height = 0, width = 0;
  int64_t patch_h = 1, patch_w = 1;
  int64_t channels_out = 0;
};
Status LaunchPatchesToChannels(const PatchesToChannels& shape, const void* x, void* y, device::Stream stream);

}  // namespace cudaep::kernels
