#include "abi/factory.h"

#include <algorithm>
#include <atomic>

#include "abi/api_version.h"
#include "abi/data_transfer.h"
#include "abi/ep.h"
#include "abi/forked.h"
#include "abi/host_allocator.h"
#include "abi/kernel_definitions.h"
#include "abi/session_budget.h"
#include "abi/session_options.h"
#include "abi/sync_stream.h"
#include "abi/thunk.h"
#include "core/log.h"
#include "memory/memory_registry.h"
#include "runtime/ignored_options.h"
#include "runtime/plan_store.h"

namespace cudaep::abi {
namespace {

// Of the process: factories share the store of plans.
constinit std::atomic<int> g_sessions{0};

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

Result<std::unique_ptr<Factory>> Factory::Create(const char* registration_name, const OrtLogger* logger) {
  std::unique_ptr<Factory> created(new Factory(registration_name));
  if (logger != nullptr) created->log_sink_.emplace(WriteToHostLog, const_cast<OrtLogger*>(logger));
  CUDAEP_ASSIGN_OR_RETURN(
      created->environment_,
      ReadEnvironmentOptions(created->ep_name_, registration_name == nullptr ? "" : registration_name));
  CUDAEP_ASSIGN_OR_RETURN(created->defaults_, ParseOptions(created->environment_));
  return created;
}

Factory::Factory(const char* registration_name) : OrtEpFactory{}, ep_name_(NameFor(registration_name)) {
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
  GetNumCustomOpDomains = Thunk<&Factory::OnGetNumCustomOpDomains>();
  GetCustomOpDomains = Thunk<&Factory::OnGetCustomOpDomains>();
  PlanStore::Process();  // made where a lack of host memory is an error; the destructor only waits for it
}

Factory::~Factory() {
  PlanStore::Process().StopBackground();  // the library may be unmapped after this
  if (registry_ != nullptr) Host().ep->ReleaseKernelRegistry(registry_);
}

Result<const OrtKernelRegistry*> Factory::KernelRegistry() {
  std::lock_guard lock(mutex_);
  if (registry_ == nullptr) {
    CUDAEP_ASSIGN_OR_RETURN(registry_, BuildKernelRegistry(ep_name_));
  }
  return registry_;
}

memory::MemoryConfig Factory::DefaultMemory(int ordinal) const {
  memory::MemoryConfig config = defaults_.memory;
  config.ordinal = ordinal;
  return config;
}

Status Factory::OnGetSupportedDevices(const OrtHardwareDevice* const* devices, size_t count, OrtEpDevice** ep_devices,
                                      size_t max_ep_devices, size_t* ep_device_count) {
  CUDAEP_RETURN_IF_ERROR(DeviceIsUsed());
  return devices_.Describe(this, devices, count, ep_devices, max_ep_devices, ep_device_count);
}

Status Factory::OnCreateEp(const OrtHardwareDevice* const*, const OrtKeyValuePairs* const* metadata, size_t count,
                           const OrtSessionOptions* options, const OrtLogger* logger, OrtEp** ep) {
  *ep = nullptr;
  CUDAEP_RETURN_IF_ERROR(CheckNotForked());
  if (count != 1) return InvalidArgument(ep_name_, " takes one device a session, not ", count);
  CUDAEP_ASSIGN_OR_RETURN(const int ordinal, DeviceList::OrdinalOf(metadata[0]));
  CUDAEP_ASSIGN_OR_RETURN(const OptionList list, ReadSessionOptions(options, ep_name_));
  CUDAEP_ASSIGN_OR_RETURN(Settings settings, ParseOptions(list, defaults_));
  for (const auto& [name, value] : list) {
    if (name == "device_id" && settings.device_ordinal != ordinal) {
      return InvalidArgument("provider option device_id=", value,
                             " names another GPU than the selected device, which "
                             "is CUDA ordinal ",
                             ordinal);
    }
  }
  if (settings.enable_cuda_graph && Host().version < kApiGraphs) {
    return NotSupported("provider option enable_cuda_graph='1' needs ONNX Runtime 1.", kApiGraphs,
                        " or newer, which captures and replays through the provider; this is ", Host().version_text);
  }
  const auto is_given = [&](const char* name) {
    return std::ranges::any_of(list, [&](const auto& entry) { return entry.first == name; });
  };
  const bool makes_model = MakesContextModel(options);
  if (settings.compiled_regions && (makes_model || PlacesNodesOnStreams(options))) {
    if (is_given("compiled_regions")) {
      return NotSupported("provider option compiled_regions='1' cannot ",
                          makes_model ? "make an EPContext model" : "run nodes on the streams that a file names",
                          "; leave out ", makes_model ? kContextEnableKey : kNodePartitionKey,
                          " or set compiled_regions=0");
    }
    settings.compiled_regions = false;
  }
  settings.device_ordinal = settings.memory.ordinal = ordinal;
  CUDAEP_ASSIGN_OR_RETURN(auto budget, ReadBudgetSetting(options, ep_name_));
  OptionList in_force = environment_;
  in_force.insert(in_force.end(), list.begin(), list.end());
  Log(LogLevel::kInfo, ep_name_, " on CUDA ordinal ", ordinal, " (", device::BackendName(),
      "): ", DescribeOptions(in_force));
  WarnOfIgnoredOptions(in_force);
  if (settings.memory != DefaultMemory(ordinal)) {
    Log(LogLevel::kInfo, ep_name_, ": the session's memory options differ from the environment's, so it gets ",
        settings.memory.shareable() ? "memory of its own or shares that of sessions with the same ones"
                                    : "memory of its own");
  }
  CUDAEP_ASSIGN_OR_RETURN(auto memory, memory::AcquireDeviceMemory(settings.memory));
  int device_count = 0;
  CUDAEP_RETURN_IF_ERROR(device::GetDeviceCount(&device_count));
  CUDAEP_ASSIGN_OR_RETURN(auto state, SessionState::Create(settings, std::move(memory), device_count > 1));
  *ep = new Ep(*this, std::move(state), std::move(budget), logger);
  g_sessions.fetch_add(1);
  return Status::Ok();
}

void Factory::OnReleaseEp(OrtEp* ep) {
  if (IsForked()) return;
  if (g_sessions.fetch_sub(1) == 1) PlanStore::Process().DropBackground();
  delete static_cast<Ep*>(ep);
  PlanStore::Process().Save().IgnoreError();  // the host's logger may be gone
}

// A shared allocator, made at registration or when an application asks for one; the options are arena.* ones.
Status Factory::OnCreateAllocator(const OrtMemoryInfo* info, const OrtKeyValuePairs* options,
                                  OrtAllocator** allocator) {
  *allocator = nullptr;
  CUDAEP_RETURN_IF_ERROR(CheckNotForked());
  int ordinal = 0;
  CUDAEP_RETURN_IF_ORT_ERROR(Host().ort->MemoryInfoGetId(info, &ordinal));
  CUDAEP_ASSIGN_OR_RETURN(Settings settings, ParseOptions(ReadPlainOptions(options), defaults_));
  settings.memory.ordinal = ordinal;
  CUDAEP_ASSIGN_OR_RETURN(const auto memory, memory::AcquireDeviceMemory(settings.memory));
  CUDAEP_ASSIGN_OR_RETURN(*allocator, HostAllocator::Create(*memory, info));
  return Status::Ok();
}

void Factory::OnReleaseAllocator(OrtAllocator* allocator) { delete static_cast<HostAllocator*>(allocator); }

Status Factory::OnCreateDataTransfer(OrtDataTransferImpl** transfer) {
  *transfer = new DataTransfer();
  return Status::Ok();
}

// A stream made outside any session (by an application, for copies or for Runs of several sessions); the options say
// which one, by the names that provider options have.
Status Factory::OnCreateSyncStreamForDevice(const OrtMemoryDevice* memory, const OrtKeyValuePairs* options,
                                            OrtSyncStreamImpl** stream) {
  CUDAEP_RETURN_IF_ERROR(CheckNotForked());
  const OptionList list = ReadPlainOptions(options);
  for (const auto& [name, value] : list) {
    if (name == "user_compute_stream" || name == "has_user_compute_stream" || name == "order_with_legacy_stream")
      continue;
    return InvalidArgument("stream option ", name, "='", value,
                           "' is not known; a stream takes user_compute_stream, has_user_compute_stream and "
                           "order_with_legacy_stream");
  }
  CUDAEP_ASSIGN_OR_RETURN(Settings settings, ParseOptions(list));
  settings.device_ordinal = static_cast<int>(Host().ep->MemoryDevice_GetDeviceId(memory));
  settings.memory = DefaultMemory(settings.device_ordinal);
  CUDAEP_ASSIGN_OR_RETURN(auto device_memory, memory::AcquireDeviceMemory(settings.memory));
  CUDAEP_ASSIGN_OR_RETURN(auto state, SessionState::Create(settings, std::move(device_memory), true));
  CUDAEP_ASSIGN_OR_RETURN(*stream, SyncStream::Create(std::move(state), SyncStream::Maker::kApplication));
  return Status::Ok();
}

Status Factory::OnGetNumCustomOpDomains(size_t* count) const {
  *count = 1;
  return Status::Ok();
}

// The host adds it to every session's options that take one of our devices.
Status Factory::OnGetCustomOpDomains(OrtCustomOpDomain** domains, size_t count) {
  if (count != 1) return InvalidArgument("there is 1 domain of custom operators, not ", count);
  std::lock_guard lock(mutex_);
  if (custom_operators_ == nullptr) {
    CUDAEP_ASSIGN_OR_RETURN(custom_operators_, CustomOperators::Create());
  }
  domains[0] = custom_operators_->domain();
  return Status::Ok();
}

}  // namespace cudaep::abi
