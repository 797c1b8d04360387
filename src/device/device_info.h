// What a device is, and why a driver cannot be used; apart from device/device.h, which kernel files include.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace cudaep::device {

struct DeviceInfo {
  int ordinal = 0;
  std::string name;            // as the driver reports it; the simulated device says so
  std::string pci_bus_id;      // "00000000:65:00.0"
  std::string uuid;            // "GPU-" and 32 hexadecimal digits with dashes
  uint32_t pci_device_id = 0;  // 16-bit PCI device id, 0 when unknown
  int major = 0, minor = 0;    // compute capability
  int multiprocessors = 0;
  int max_threads_per_multiprocessor = 0;
  size_t total_bytes = 0;
  size_t l2_bytes = 0;
  size_t shared_bytes_per_block = 0;  // opt-in maximum
  size_t shared_bytes_per_multiprocessor = 0;
  bool simulated = false;
};

// Why a driver that is present cannot be used (too old for this build's runtime), for `doctor`; empty otherwise.
std::string DriverProblem();

}  // namespace cudaep::device
