// The GPUs of this process as the host sees them: one provider device for each CUDA ordinal.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "abi/host.h"
#include "device/device.h"
#include "device/device_info.h"

namespace cudaep::abi {

inline constexpr uint32_t kNvidiaVendorId = 0x10de;

// Keys of a provider device's metadata.
inline constexpr const char* kMetadataOrdinal = "cuda_ordinal";
inline constexpr const char* kMetadataDeviceId = "cuda_device_id";  // the same; the key by which hosts find `device_id`
inline constexpr const char* kMetadataPciBusId = "pci_bus_id";
inline constexpr const char* kMetadataUuid = "uuid";
inline constexpr const char* kMetadataSimulated = "simulated";

// Owns the hardware devices and memory infos it created; the host keeps pointers to both, so they live as long as the
// factory and never move.
class DeviceList {
 public:
  DeviceList() = default;
  ~DeviceList();
  DeviceList(const DeviceList&) = delete;
  DeviceList& operator=(const DeviceList&) = delete;

  // Makes one provider device for each visible GPU, on the host's hardware device with the same PCI bus id, or on a
  // new one where the host found none. No driver or no GPU gives none, and no error. A GPU that cannot be read,
  // that this build has no code for, or for which `max_ep_devices` leaves no room, is left out with a warning.
  Status Describe(OrtEpFactory* factory, const OrtHardwareDevice* const* host_devices, size_t host_count,
                  OrtEpDevice** ep_devices, size_t max_ep_devices, size_t* ep_device_count);

  // The CUDA ordinal of a provider device handed to CreateEp, from its metadata.
  static Result<int> OrdinalOf(const OrtKeyValuePairs* metadata);

 private:
  struct Entry {
    OrtHardwareDevice* owned_hardware = nullptr;  // null where the host found the device itself
    OrtMemoryInfo* device_memory = nullptr;
    OrtMemoryInfo* pinned_memory = nullptr;
    OrtMemoryInfo* weights_memory = nullptr;  // for initialisers alone
  };
  Result<OrtEpDevice*> DescribeOne(OrtEpFactory* factory, const device::DeviceInfo& info,
                                   const OrtHardwareDevice* hardware);

  std::vector<std::unique_ptr<Entry>> entries_;
};

}  // namespace cudaep::abi
