// For a scope, the calling thread's driver calls do not end another stream's capture.
#pragma once

#include "device/device.h"

namespace cudaep::memory {

class RelaxedCapture {
 public:
  RelaxedCapture() { device::ThreadExchangeCaptureMode(&mode_).IgnoreError(); }
  ~RelaxedCapture() { device::ThreadExchangeCaptureMode(&mode_).IgnoreError(); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  device::CaptureMode mode_ = device::CaptureMode::kRelaxed;
};

}  // namespace cudaep::memory
