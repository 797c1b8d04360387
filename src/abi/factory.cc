#include "abi/factory.h"

#include "abi/data_transfer.h"
#include "abi/ep.h"
#include "abi/host_allocator.h"
#include "abi/kernel_definitions.h"
#include "abi/session_options.h"
#include "abi/sync_stream.h"
#include "abi/thunk.h"
#include "core/log.h"
#include "memory/stream_ordered_allocator.h"

namespace cudaep::abi {
namespace {

constexpr const char* kDefaultName = "CUDAExecutionProvider";
constexpr const char* kPluginName = "CudaPluginExecutionProvider";

// The host keys fusions and budgets on the default name; the other one is taken when asked for by registration.
const char* NameFor(const char* registration_name) {
  return registration_name != nullptr && std::string_view(registration_name) == kPluginName ? kPluginName
                                                                                            : kDefaultName;
}

void WriteToHostLog(void* logger, LogLevel level, std::string_view message) {
  FromOrt(Host().ort->Logger_LogMessage(static_cast<const OrtLogger*>(logger), static_cast<OrtLoggingLevel>(level),
                                        std::string(message).c_str(), "ort-cuda-ep", 0, "ort-cuda-ep"))
      .IgnoreError();
}

}  // namespace

Factory::Factory(const char* registration_name, const OrtLogger* logger)
    : OrtEpFactory{}, ep_name_(NameFor(registration_name)) {
  if (logger != nullptr) SetLogSink(WriteToHostLog, const_cast<OrtLogger*>(logger));
  ort_version_supported = Host().version;
  GetName = Thunk<&Factory::OnGetName>();
  GetVendor = Thunk<&Factory::OnGetVendor>();
  GetVendorId = Thunk<&Factory::OnGetVendorId>();
  GetVersion = Thunk<&Factory::OnGetVersion>();
  GetSupportedDevices = Thunk<&Factory::OnGetSupportedDevices>();
  CreateEp = Thunk<&Factory::OnCreateEp>();
  ReleaseEp = Thunk<&Factory::OnReleaseEp>();
  CreateAllocator = Thunk<&Factory::OnCreateAllocator>();
  ReleaseAllocator = Thunk<&Factory::OnReleaseAllocator>();
  CreateDataTransfer = Thunk<&Factory::OnCreateDataTransfer>();
  IsStreamAware = Thunk<&Factory::OnIsStreamAware>();
  CreateSyncStreamForDevice = Thunk<&Factory::OnCreateSyncStreamForDevice>();
}

Factory::~Factory() {
  SetLogSink(nullptr, nullptr);
  if (registry_ != nullptr) Host().ep->ReleaseKernelRegistry(registry_);
}

Result<const OrtKernelRegistry*> Factory::KernelRegistry() {
  std::lock_guard lock(mutex_);
  if (registry_ == nullptr) {
    CUDAEP_ASSIGN_OR_RETURN(registry_, BuildKernelRegistry(ep_name_));
  }
  return registry_;
}

Factory::SharedAllocators& Factory::AllocatorsOf(int ordinal) {
  const auto index = static_cast<size_t>(ordinal);
  if (allocators_.size() <= index) allocators_.resize(index + 1);
  SharedAllocators& shared = allocators_[index];
  if (shared.device == nullptr) {
    using memory::MemoryKind;
    shared.device =
        std::make_shared<memory::StreamOrderedAllocator>(memory::MemorySource{MemoryKind::kDevice, ordinal});
    shared.pinned =
        std::make_shared<memory::StreamOrderedAllocator>(memory::MemorySource{MemoryKind::kPinnedHost, ordinal});
  }
  return shared;
}

std::shared_ptr<memory::Allocator> Factory::DeviceAllocator(int ordinal) {
  std::lock_guard lock(mutex_);
  return AllocatorsOf(ordinal).device;
}

Status Factory::OnGetSupportedDevices(const OrtHardwareDevice* const* devices, size_t count, OrtEpDevice** ep_devices,
                                      size_t max_ep_devices, size_t* ep_device_count) {
  return devices_.Describe(this, devices, count, ep_devices, max_ep_devices, ep_device_count);
}

Status Factory::OnCreateEp(const OrtHardwareDevice* const*, const OrtKeyValuePairs* const* metadata, size_t count,
                           const OrtSessionOptions* options, const OrtLogger* logger, OrtEp** ep) {
  *ep = nullptr;
  if (count != 1) return InvalidArgument(ep_name_, " takes one device a session, not ", count);
  CUDAEP_ASSIGN_OR_RETURN(const int ordinal, DeviceList::OrdinalOf(metadata[0]));
  CUDAEP_ASSIGN_OR_RETURN(const OptionList list, ReadSessionOptions(options, ep_name_));
  CUDAEP_ASSIGN_OR_RETURN(Settings settings, ParseOptions(list));
  for (const auto& [name, value] : list) {
    if (name == "device_id" && settings.device_ordinal != ordinal) {
      return InvalidArgument("provider option device_id=", value,
                             " names another GPU than the selected device, which "
                             "is CUDA ordinal ",
                             ordinal);
    }
  }
  settings.device_ordinal = ordinal;
  Log(LogLevel::kInfo, ep_name_, " on CUDA ordinal ", ordinal, " (", device::BackendName(),
      "): ", DescribeOptions(list));
  int device_count = 0;
  CUDAEP_RETURN_IF_ERROR(device::GetDeviceCount(&device_count));
  auto state = std::make_shared<SessionState>(settings, DeviceAllocator(ordinal), device_count > 1);
  *ep = new Ep(*this, std::move(state), logger);
  return Status::Ok();
}

void Factory::OnReleaseEp(OrtEp* ep) { delete static_cast<Ep*>(ep); }

Status Factory::OnCreateAllocator(const OrtMemoryInfo* info, const OrtKeyValuePairs*, OrtAllocator** allocator) {
  *allocator = nullptr;
  int ordinal = 0;
  CUDAEP_RETURN_IF_ORT_ERROR(Host().ort->MemoryInfoGetId(info, &ordinal));
  const bool pinned = Host().ort->MemoryInfoGetDeviceMemType(info) == OrtDeviceMemoryType_HOST_ACCESSIBLE;
  std::lock_guard lock(mutex_);
  const SharedAllocators& shared = AllocatorsOf(ordinal);
  *allocator = new HostAllocator(pinned ? shared.pinned : shared.device, info);
  return Status::Ok();
}

void Factory::OnReleaseAllocator(OrtAllocator* allocator) { delete static_cast<HostAllocator*>(allocator); }

Status Factory::OnCreateDataTransfer(OrtDataTransferImpl** transfer) {
  *transfer = new DataTransfer();
  return Status::Ok();
}

// A stream made outside any session (by an application, for copies or for Runs of several sessions).
Status Factory::OnCreateSyncStreamForDevice(const OrtMemoryDevice* memory, const OrtKeyValuePairs*,
                                            OrtSyncStreamImpl** stream) {
  Settings settings;
  settings.device_ordinal = static_cast<int>(Host().ep->MemoryDevice_GetDeviceId(memory));
  auto state = std::make_shared<SessionState>(settings, DeviceAllocator(settings.device_ordinal), true);
  CUDAEP_ASSIGN_OR_RETURN(*stream, SyncStream::Create(std::move(state)));
  return Status::Ok();
}

}  // namespace cudaep::abi
