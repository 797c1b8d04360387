#include "abi/devices.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstring>

#include "core/log.h"
#include "core/strings.h"
#include "device/architectures.h"

namespace cudaep::abi {
namespace {

// PCI ids come with 4 or 8 digits of domain and in either case: compare from the bus on, and the domain as a number.
bool SamePciBusId(std::string_view a, std::string_view b) {
  const auto normal = [](std::string_view id) {
    std::string text(id);
    std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
    const size_t significant = text.find_first_not_of('0');
    return significant == std::string::npos || text.find(':') < significant ? text.substr(text.find(':'))
                                                                            : text.substr(significant);
  };
  return a.find(':') != std::string_view::npos && b.find(':') != std::string_view::npos && normal(a) == normal(b);
}

bool IsTheGpu(const OrtHardwareDevice* hardware, const device::DeviceInfo& info) {
  const OrtApi& ort = *Host().ort;
  if (ort.HardwareDevice_Type(hardware) != OrtHardwareDeviceType_GPU ||
      ort.HardwareDevice_VendorId(hardware) != kNvidiaVendorId || info.simulated) {
    return false;
  }
  const OrtKeyValuePairs* metadata = ort.HardwareDevice_Metadata(hardware);
  const char* id = metadata != nullptr ? ort.GetKeyValue(metadata, kMetadataPciBusId) : nullptr;
  return id != nullptr && SamePciBusId(id, info.pci_bus_id);
}

UniqueKeyValuePairs MetadataOf(const device::DeviceInfo& info) {
  OrtKeyValuePairs* pairs = nullptr;
  Host().ort->CreateKeyValuePairs(&pairs);
  const auto add = [&](const char* key, const std::string& value) {
    Host().ort->AddKeyValuePair(pairs, key, value.c_str());
  };
  add(kMetadataOrdinal, std::to_string(info.ordinal));
  add(kMetadataDeviceId, std::to_string(info.ordinal));
  add("name", info.name);
  add(kMetadataPciBusId, info.pci_bus_id);
  add(kMetadataUuid, info.uuid);
  add("compute_capability", StrCat(info.major, ".", info.minor));
  add("multiprocessors", std::to_string(info.multiprocessors));
  add("memory_bytes", std::to_string(info.total_bytes));
  add("driver_version", std::to_string(device::DriverVersion()));
  add("runtime_version", std::to_string(device::RuntimeVersion()));
  add(kMetadataSimulated, info.simulated ? "1" : "0");
  return UniqueKeyValuePairs(pairs);
}

void LogNoDevice() {
  if (const std::string problem = device::DriverProblem(); !problem.empty()) {
    Log(LogLevel::kWarning, "no GPU can be used: ", problem);
  } else {
    Log(LogLevel::kInfo, "no GPU is visible to CUDA: no device is offered");
  }
}

}  // namespace

DeviceList::~DeviceList() {
  for (const auto& entry : entries_) {
    if (entry->owned_hardware != nullptr) Host().ep->ReleaseHardwareDevice(entry->owned_hardware);
    if (entry->device_memory != nullptr) Host().ort->ReleaseMemoryInfo(entry->device_memory);
    if (entry->pinned_memory != nullptr) Host().ort->ReleaseMemoryInfo(entry->pinned_memory);
    if (entry->weights_memory != nullptr) Host().ort->ReleaseMemoryInfo(entry->weights_memory);
  }
}

Result<OrtEpDevice*> DeviceList::DescribeOne(OrtEpFactory* factory, const device::DeviceInfo& info,
                                             const OrtHardwareDevice* hardware) {
  const OrtApi& ort = *Host().ort;
  const OrtEpApi& ep = *Host().ep;
  auto& entry = *entries_.emplace_back(std::make_unique<Entry>());
  const UniqueKeyValuePairs metadata = MetadataOf(info);
  if (hardware == nullptr) {
    CUDAEP_RETURN_IF_ORT_ERROR(ep.CreateHardwareDevice(OrtHardwareDeviceType_GPU, kNvidiaVendorId, info.pci_device_id,
                                                       "NVIDIA", metadata.get(), &entry.owned_hardware));
    hardware = entry.owned_hardware;
  }
  CUDAEP_RETURN_IF_ORT_ERROR(ort.CreateMemoryInfo_V2("Cuda", OrtMemoryInfoDeviceType_GPU, kNvidiaVendorId, info.ordinal,
                                                     OrtDeviceMemoryType_DEFAULT, 0, OrtDeviceAllocator,
                                                     &entry.device_memory));
  CUDAEP_RETURN_IF_ORT_ERROR(ort.CreateMemoryInfo_V2("CudaPinned", OrtMemoryInfoDeviceType_GPU, kNvidiaVendorId,
                                                     info.ordinal, OrtDeviceMemoryType_HOST_ACCESSIBLE, 0,
                                                     OrtDeviceAllocator, &entry.pinned_memory));
  CUDAEP_RETURN_IF_ORT_ERROR(ort.CreateMemoryInfo_V2("Cuda", OrtMemoryInfoDeviceType_GPU, kNvidiaVendorId, info.ordinal,
                                                     OrtDeviceMemoryType_DEFAULT, 0, OrtReadOnlyAllocator,
                                                     &entry.weights_memory));
  OrtEpDevice* device = nullptr;
  CUDAEP_RETURN_IF_ORT_ERROR(ep.CreateEpDevice(factory, hardware, metadata.get(), nullptr, &device));
  Status status;
  for (const OrtMemoryInfo* memory : {entry.device_memory, entry.pinned_memory, entry.weights_memory}) {
    if (status.ok()) status = FromOrt(ep.EpDevice_AddAllocatorInfo(device, memory));
  }
  if (!status.ok()) {
    ep.ReleaseEpDevice(device);
    return status;
  }
  return device;
}

Status DeviceList::Describe(OrtEpFactory* factory, const OrtHardwareDevice* const* host_devices, size_t host_count,
                            OrtEpDevice** ep_devices, size_t max_ep_devices, size_t* ep_device_count) {
  int count = 0;
  *ep_device_count = 0;
  CUDAEP_RETURN_IF_ERROR(device::GetDeviceCount(&count));
  if (count == 0) LogNoDevice();
  size_t made = 0;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    if (made == max_ep_devices) {
      Log(LogLevel::kWarning, "the host takes ", max_ep_devices, " devices and CUDA shows ", count, ": ordinals from ",
          ordinal, " on are left out; choose with CUDA_VISIBLE_DEVICES");
      break;
    }
    const Result<const device::DeviceInfo*> info = device::GetDeviceInfo(ordinal);
    if (!info.ok()) {  // one broken GPU must not hide the others
      Log(LogLevel::kWarning, "CUDA ordinal ", ordinal, " is left out: ", info.status().ToString());
      continue;
    }
    if (const Status code = device::CheckCode(*info.value()); !code.ok()) {
      Log(LogLevel::kWarning, "CUDA ordinal ", ordinal, " is left out: ", code.message());
      continue;
    }
    const auto* found = std::find_if(host_devices, host_devices + host_count, [&](const OrtHardwareDevice* candidate) {
      return IsTheGpu(candidate, *info.value());
    });
    const OrtHardwareDevice* hardware = found == host_devices + host_count ? nullptr : *found;
    Result<OrtEpDevice*> device = DescribeOne(factory, *info.value(), hardware);
    if (!device.ok()) {
      while (made > 0) Host().ep->ReleaseEpDevice(ep_devices[--made]);  // after an error the host takes none of them
      return device.status();
    }
    ep_devices[made++] = device.value();
  }
  *ep_device_count = made;
  return Status::Ok();
}

Result<int> DeviceList::OrdinalOf(const OrtKeyValuePairs* metadata) {
  const char* text = metadata != nullptr ? Host().ort->GetKeyValue(metadata, kMetadataOrdinal) : nullptr;
  int ordinal = 0;
  if (text == nullptr || std::from_chars(text, text + std::strlen(text), ordinal).ec != std::errc()) {
    return InvalidArgument("the selected device carries no ", kMetadataOrdinal, " metadata");
  }
  return ordinal;
}

}  // namespace cudaep::abi
