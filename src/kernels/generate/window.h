// Windows that are sums of cosines.
#pragma once

#include <cstdint>

#include "core/data_type.h"
#include "device/device.h"

namespace cudaep::kernels {

// Element i is constant - first * cos(2 pi i / period) + second * cos(4 pi i / period), computed in double.
struct CosineWindow {
  double constant = 0, first = 0, second = 0;
  double period = 1;
  int64_t size = 0;
};

// Integers cut off fractions; NaN, from a period of 0, becomes 0 there.
Status LaunchWindow(const CosineWindow& window, DataType type, void* out, device::Stream stream);

}  // namespace cudaep::kernels
