#include "fake_host.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "failing_memory.h"

namespace cudaep::abi {
namespace {

struct State {
  FakeHostConfig config;
  OrtApi api;
  OrtEpApi ep_api;
  std::vector<uint32_t> asked;
  int devices_made = 0;
};
std::array<State, 2> g_states;
std::vector<std::string> g_log;
const OrtLogger* g_last_logger = nullptr;
int g_live = 0;

template <class T>
T* Made(T* object) {
  ++g_live;
  return object;
}

template <class T>
void ORT_API_CALL Release(T* object) noexcept {
  if (object != nullptr) --g_live;
  delete object;
}

// A table whose every slot ends the process, by name of the table and number of the slot.
template <class Table, size_t kSlot>
void Unexpected() {
  std::fprintf(stderr, "FakeHost: unexpected call of slot %zu of a table of %zu\n", kSlot, sizeof(Table) / 8);
  std::abort();
}

template <class Table, size_t... kSlot>
void FillWithTraps(Table* table, std::index_sequence<kSlot...>) {
  void (*const traps[])() = {&Unexpected<Table, kSlot>...};
  static_assert(sizeof(traps) == sizeof(Table));
  std::memcpy(static_cast<void*>(table), traps, sizeof(traps));
}

template <class Table>
void FillWithTraps(Table* table) {
  FillWithTraps(table, std::make_index_sequence<sizeof(Table) / sizeof(void*)>());
}

OrtStatus* ORT_API_CALL CreateStatus(OrtErrorCode code, const char* message) noexcept {
  const test::UnlimitedMemory memory;
  return Made(new OrtStatus{code, message});
}

OrtKeyValuePairs* PairsOf(const std::map<std::string, std::string>& entries) {
  const test::UnlimitedMemory memory;
  return Made(new OrtKeyValuePairs{entries, {}, {}});
}

OrtStatus* ORT_API_CALL LogMessage(const OrtLogger* logger, OrtLoggingLevel level, const char* message, const char*,
                                   int, const char*) noexcept {
  const test::UnlimitedMemory memory;
  g_last_logger = logger;
  g_log.push_back(std::to_string(static_cast<int>(level)) + " " + message);
  return nullptr;
}

void ORT_API_CALL GetPairs(const OrtKeyValuePairs* pairs, const char* const** keys, const char* const** values,
                           size_t* count) noexcept {
  const test::UnlimitedMemory memory;
  auto* views = const_cast<OrtKeyValuePairs*>(pairs);
  views->keys.clear();
  views->values.clear();
  for (const auto& [key, value] : pairs->entries) {
    views->keys.push_back(key.c_str());
    views->values.push_back(value.c_str());
  }
  *keys = views->keys.data();
  *values = views->values.data();
  *count = views->keys.size();
}

const char* ORT_API_CALL GetValue(const OrtKeyValuePairs* pairs, const char* key) noexcept {
  const auto entry = pairs->entries.find(key);
  return entry == pairs->entries.end() ? nullptr : entry->second.c_str();
}

OrtStatus* ORT_API_CALL CreateMemoryInfo(const char* name, OrtMemoryInfoDeviceType, uint32_t, int32_t device_id,
                                         OrtDeviceMemoryType memory_type, size_t, OrtAllocatorType allocator_type,
                                         OrtMemoryInfo** info) noexcept {
  *info = Made(new OrtMemoryInfo{name, device_id, memory_type, allocator_type});
  return nullptr;
}

OrtStatus* ORT_API_CALL CreateHardwareDevice(OrtHardwareDeviceType type, uint32_t vendor_id, uint32_t device_id,
                                             const char*, const OrtKeyValuePairs* metadata,
                                             OrtHardwareDevice** device) noexcept {
  *device = Made(new OrtHardwareDevice{type, vendor_id, device_id, {metadata->entries, {}, {}}});
  return nullptr;
}

template <int kIndex>
struct Functions {
  static State& state() { return g_states[kIndex]; }

  static const OrtApi* ORT_API_CALL GetApi(uint32_t version) noexcept {
    const test::UnlimitedMemory memory;
    state().asked.push_back(version);
    const FakeHostConfig& config = state().config;
    const bool has = version >= config.oldest_api && version <= config.newest_api && !config.gaps.contains(version);
    return has ? &state().api : nullptr;
  }
  static const char* ORT_API_CALL GetVersionString() noexcept {
    return state().config.has_version ? state().config.version.c_str() : nullptr;
  }
  static const OrtEpApi* ORT_API_CALL GetEpApi() noexcept {
    return state().config.has_ep_api ? &state().ep_api : nullptr;
  }
  static OrtStatus* ORT_API_CALL GetEnvironment(OrtKeyValuePairs** pairs) noexcept {
    *pairs = PairsOf(state().config.environment);
    return nullptr;
  }
  static OrtStatus* ORT_API_CALL GetSessionEntry(const OrtSessionOptions*, const char* key, char* value,
                                                 size_t* size) noexcept {
    const auto found = state().config.session.find(key);
    if (found == state().config.session.end()) return CreateStatus(ORT_FAIL, "no such entry");
    const size_t needed = found->second.size() + 1;
    if (value != nullptr) std::memcpy(value, found->second.c_str(), std::min(*size, needed));
    *size = needed;
    return nullptr;
  }
  static OrtStatus* ORT_API_CALL GetSessionEntries(const OrtSessionOptions*, OrtKeyValuePairs** pairs) noexcept {
    *pairs = PairsOf(state().config.session);
    return nullptr;
  }
  static OrtStatus* ORT_API_CALL CreateEpDevice(OrtEpFactory*, const OrtHardwareDevice* hardware,
                                                const OrtKeyValuePairs* metadata, const OrtKeyValuePairs*,
                                                OrtEpDevice** device) noexcept {
    if (state().devices_made == state().config.fail_after_devices) return CreateStatus(ORT_FAIL, "no more devices");
    ++state().devices_made;
    *device = Made(new OrtEpDevice{hardware, metadata->entries, {}});
    return nullptr;
  }

  static constexpr OrtApiBase kBase{GetApi, GetVersionString};

  static void Fill() {
    OrtApi& api = state().api;
    FillWithTraps(&api);
    api.GetEpApi = GetEpApi;
    api.GetSessionOptionsConfigEntries = GetSessionEntries;
    api.GetSessionConfigEntry = GetSessionEntry;
    api.CreateStatus = CreateStatus;
    api.GetErrorCode = [](const OrtStatus* status) noexcept { return status->code; };
    api.GetErrorMessage = [](const OrtStatus* status) noexcept { return status->message.c_str(); };
    api.ReleaseStatus = Release<OrtStatus>;
    api.Logger_LogMessage = LogMessage;
    api.CreateKeyValuePairs = [](OrtKeyValuePairs** pairs) { *pairs = PairsOf({}); };
    api.AddKeyValuePair = [](OrtKeyValuePairs* pairs, const char* key, const char* value) {
      pairs->entries[key] = value;
    };
    api.GetKeyValue = [](const OrtKeyValuePairs* pairs, const char* key) { return GetValue(pairs, key); };
    api.GetKeyValuePairs = [](const OrtKeyValuePairs* pairs, const char* const** keys, const char* const** values,
                              size_t* count) { GetPairs(pairs, keys, values, count); };
    api.ReleaseKeyValuePairs = Release<OrtKeyValuePairs>;
    api.HardwareDevice_Type = [](const OrtHardwareDevice* device) { return device->type; };
    api.HardwareDevice_VendorId = [](const OrtHardwareDevice* device) { return device->vendor_id; };
    api.HardwareDevice_Metadata = [](const OrtHardwareDevice* device) -> const OrtKeyValuePairs* {
      return &device->metadata;
    };
    api.CreateMemoryInfo_V2 = CreateMemoryInfo;
    api.MemoryInfoGetId = [](const OrtMemoryInfo* info, int* id) noexcept -> OrtStatus* {
      *id = info->device_id;
      return nullptr;
    };
    api.MemoryInfoGetType = [](const OrtMemoryInfo* info, OrtAllocatorType* type) noexcept -> OrtStatus* {
      *type = info->allocator_type;
      return nullptr;
    };
    api.MemoryInfoGetDeviceMemType = [](const OrtMemoryInfo* info) noexcept { return info->memory_type; };
    api.ReleaseMemoryInfo = Release<OrtMemoryInfo>;

    OrtEpApi& ep = state().ep_api;
    FillWithTraps(&ep);
    ep.GetEnvConfigEntries = GetEnvironment;
    ep.CreateHardwareDevice = CreateHardwareDevice;
    ep.ReleaseHardwareDevice = Release<OrtHardwareDevice>;
    ep.CreateEpDevice = CreateEpDevice;
    ep.ReleaseEpDevice = Release<OrtEpDevice>;
    ep.EpDevice_AddAllocatorInfo = [](OrtEpDevice* device, const OrtMemoryInfo* info) noexcept -> OrtStatus* {
      device->memory.push_back(info);
      return nullptr;
    };
  }
};

}  // namespace

FakeHost::FakeHost(FakeHostConfig config, int index) : index_(index) {
  State& state = g_states[static_cast<size_t>(index)];
  state.config = std::move(config);
  state.asked.clear();
  state.devices_made = 0;
  index == 0 ? Functions<0>::Fill() : Functions<1>::Fill();
}

const OrtApiBase* FakeHost::base() const { return index_ == 0 ? &Functions<0>::kBase : &Functions<1>::kBase; }

const std::vector<uint32_t>& FakeHost::asked_versions() const { return g_states[static_cast<size_t>(index_)].asked; }

void FakeHost::Release(OrtStatus* status) { abi::Release(status); }

const std::vector<std::string>& FakeHost::log() { return g_log; }
void FakeHost::ClearLog() { g_log.clear(); }
int FakeHost::live_objects() { return g_live; }
const OrtLogger* FakeHost::last_logger() { return g_last_logger; }
const OrtLogger* FakeHost::logger() { return reinterpret_cast<const OrtLogger*>(&g_log); }

}  // namespace cudaep::abi
