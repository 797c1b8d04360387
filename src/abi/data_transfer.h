// Copies between host, pinned and device memory for the host.
//
// On a given stream copies are queued; without one they are done when the call returns. Memory that is not registered
// with the driver is safe in both cases (device/device.h says how it is copied).
#pragma once

#include "abi/host.h"

namespace cudaep::abi {

class DataTransfer : public OrtDataTransferImpl {
 public:
  DataTransfer();

 private:
  void OnRelease() { delete this; }
  bool OnCanCopy(const OrtMemoryDevice* source, const OrtMemoryDevice* destination) const;
  Status OnCopyTensors(const OrtValue** sources, OrtValue** destinations, OrtSyncStream** streams, size_t count);
};

}  // namespace cudaep::abi
