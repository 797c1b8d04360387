// The calling thread's current device and the owner of a pointer, as the plug-in's own copy of the device layer has
// them; -1 for none and for errors.
#include "device/device.h"

#define CUDAEP_EXPORT extern "C" __attribute__((visibility("default")))

CUDAEP_EXPORT int DeviceWatchGet() {
  int ordinal = -1;
  return cudaep::device::GetDevice(&ordinal).ok() ? ordinal : -1;
}

CUDAEP_EXPORT int DeviceWatchSet(int ordinal) { return cudaep::device::SetDevice(ordinal).ok() ? ordinal : -1; }

CUDAEP_EXPORT int DeviceWatchOwner(const void* pointer) {
  cudaep::device::PointerInfo info;
  return cudaep::device::GetPointerInfo(pointer, &info).ok() ? info.ordinal : -1;
}
