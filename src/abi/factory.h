// The provider factory: what the host gets when it registers the library.
//
// Owns what all sessions share: devices, the environment's options, the kernel registry. Lives from registration until
// the host unregisters the library; sessions, values and allocators may end in any order before and after, which is why
// device memory is reference-counted (memory/memory_registry.h).
// Threads: the host may call from several threads once registered.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "abi/custom_operators.h"
#include "abi/devices.h"
#include "abi/host.h"
#include "core/log.h"
#include "memory/device_memory.h"
#include "runtime/options_table.h"

namespace cudaep::abi {

class Factory : public OrtEpFactory {
 public:
  // Fails on malformed environment entries.
  static Result<std::unique_ptr<Factory>> Create(const char* registration_name, const OrtLogger* logger);
  ~Factory();
  Factory(const Factory&) = delete;
  Factory& operator=(const Factory&) = delete;

  // The registration is over and the host's logger may end: nothing more is logged through it. The factory itself may
  // have to live on for sessions and values that do.
  void StopLogging() { log_sink_.reset(); }

  const std::string& ep_name() const { return ep_name_; }

  // The registry that holds a kernel definition for every row; built on first use.
  Result<const OrtKernelRegistry*> KernelRegistry();

 private:
  explicit Factory(const char* registration_name);
  const char* OnGetName() const { return ep_name_.c_str(); }
  const char* OnGetVendor() const { return "ort-cuda-ep"; }
  uint32_t OnGetVendorId() const { return kNvidiaVendorId; }
  const char* OnGetVersion() const { return CUDAEP_VERSION; }
  Status OnGetSupportedDevices(const OrtHardwareDevice* const* devices, size_t count, OrtEpDevice** ep_devices,
                               size_t max_ep_devices, size_t* ep_device_count);
  Status OnCreateEp(const OrtHardwareDevice* const* devices, const OrtKeyValuePairs* const* metadata, size_t count,
                    const OrtSessionOptions* options, const OrtLogger* logger, OrtEp** ep);
  void OnReleaseEp(OrtEp* ep);
  Status OnCreateAllocator(const OrtMemoryInfo* info, const OrtKeyValuePairs* options, OrtAllocator** allocator);
  void OnReleaseAllocator(OrtAllocator* allocator);
  Status OnCreateDataTransfer(OrtDataTransferImpl** transfer);
  bool OnIsStreamAware() const { return true; }
  Status OnCreateSyncStreamForDevice(const OrtMemoryDevice* device, const OrtKeyValuePairs* options,
                                     OrtSyncStreamImpl** stream);
  Status OnGetNumCustomOpDomains(size_t* count) const;
  Status OnGetCustomOpDomains(OrtCustomOpDomain** domains, size_t count);

  // The environment's configuration for a device: what sessions without memory options share.
  memory::MemoryConfig DefaultMemory(int ordinal) const;

  std::optional<LogSink> log_sink_;  // none where the host gave no logger
  const std::string ep_name_;
  OptionList environment_;  // of the host, as given
  Settings defaults_;       // as parsed from it
  DeviceList devices_;

  std::mutex mutex_;
  OrtKernelRegistry* registry_ = nullptr;              // guarded by mutex_
  std::unique_ptr<CustomOperators> custom_operators_;  // too
};

}  // namespace cudaep::abi
