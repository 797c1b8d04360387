// Scale and zero point of a float tensor from its extremes, and its quantization to uint8 with them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/status.h"
#include "device/device.h"

namespace cudaep::kernels {

struct DynamicQuantize {
  const float* x = nullptr;
  uint8_t* y = nullptr;           // null where only scale and zero point are wanted
  float* scale = nullptr;         // (max - min) / 255 of x and 0, 1 where that is 0
  uint8_t* zero_point = nullptr;  // the code of 0
  float* extremes = nullptr;      // scratch of DynamicQuantizeScratch(elems) bytes
  int64_t elems = 0;
};

// Bytes of scratch memory.
size_t DynamicQuantizeScratch(int64_t elems);

// One launch for a small tensor, else three. An empty tensor has scale 1 and zero point 0. NaN does not count.
Status LaunchDynamicQuantize(const DynamicQuantize& args, device::Stream stream);

}  // namespace cudaep::kernels
