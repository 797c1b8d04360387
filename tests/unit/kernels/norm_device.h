// The device that normalisation is planned for in tests: an H200.
#pragma once

#include "device/device.h"
#include "device/device_info.h"

namespace cudaep::kernels {

inline device::DeviceInfo Gpu() {
  device::DeviceInfo info;
  info.major = 9;
  info.multiprocessors = 132;
  info.shared_bytes_per_block = size_t{227} << 10;
  info.shared_bytes_per_multiprocessor = size_t{228} << 10;
  return info;
}

}  // namespace cudaep::kernels
