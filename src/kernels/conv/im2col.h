// The column matrix of a convolution: what the weights are multiplied with to give a range of output pixels.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/status.h"
#include "device/device.h"

namespace cudaep::kernels {

// Images, three spatial dimensions (leading ones of size 1 where there are fewer), channels first.
struct Im2col {
  int64_t channels = 0;
  int64_t in[3] = {}, out[3] = {}, kernel[3] = {};
  int64_t stride[3] = {}, dilation[3] = {}, pad[3] = {};  // padding before the data
  bool transposed = false;                                // of a transposed convolution: strides lie between inputs
  int64_t images = 1;                                     // their columns follow each other
};

// columns[c * taps + tap][p] for pixels [first_pixel, first_pixel + pixels) of the output; where a tap meets no input,
// the element at `outside`, or 0 without one. Elements of 1, 2, 4 or 8 bytes.
Status LaunchIm2col(const Im2col& shape, size_t element_bytes, const void* x, void* columns, int64_t first_pixel,
                    int64_t pixels, device::Stream stream, const void* outside = nullptr);

}  // namespace cudaep::kernels
