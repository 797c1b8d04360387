// What the simulated device can refuse or undo and a GPU cannot.
#pragma once

#include "core/status.h"
#include "device/device.h"

namespace cudaep::test {

// While it lives, work on other streams than `stream` is an error; no effect on a GPU.
class OnlyStream {
 public:
  explicit OnlyStream(device::Stream stream);
  ~OnlyStream();
  OnlyStream(const OnlyStream&) = delete;
  OnlyStream& operator=(const OnlyStream&) = delete;
};

// Makes the device usable again after an error of device code, so that one bad kernel fails one case. Everything on
// the device is lost. On a GPU such an error lasts until the process ends.
void RecoverDevice();

}  // namespace cudaep::test
