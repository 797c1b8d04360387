// A host of ONNX Runtime's C ABI in memory: what registration, the description of devices and the creation of a
// provider use of it. Any other function of its tables ends the process and names its slot.
//
// The host's opaque types are defined here, so that tests can make hardware devices and read what was made. Objects
// are counted: a test that ends with one more than it began with has a leak.
// Threads: one at a time.
#pragma once

#include <onnxruntime_c_api.h>

#include <map>
#include <set>
#include <string>
#include <vector>

struct OrtStatus {
  OrtErrorCode code;
  std::string message;
};

struct OrtKeyValuePairs {
  std::map<std::string, std::string> entries;
  std::vector<const char*> keys, values;  // views for GetKeyValuePairs
};

struct OrtHardwareDevice {
  OrtHardwareDeviceType type = OrtHardwareDeviceType_GPU;
  uint32_t vendor_id = 0x10de;
  uint32_t device_id = 0;
  OrtKeyValuePairs metadata;
};

struct OrtMemoryInfo {
  std::string name;
  int32_t device_id = 0;
  OrtDeviceMemoryType memory_type = OrtDeviceMemoryType_DEFAULT;
  OrtAllocatorType allocator_type = OrtDeviceAllocator;
};

struct OrtEpDevice {
  const OrtHardwareDevice* hardware = nullptr;
  std::map<std::string, std::string> metadata;
  std::vector<const OrtMemoryInfo*> memory;
};

namespace cudaep::abi {

struct FakeHostConfig {
  std::string version = "1.27.0";
  bool has_version = true;       // false: GetVersionString gives null
  uint32_t oldest_api = 1;       // GetApi gives null outside of [oldest_api, newest_api]
  uint32_t newest_api = 27;      // 0: no API at all
  std::set<uint32_t> gaps = {};  // and for these
  bool has_ep_api = true;
  int fail_after_devices = -1;                          // CreateEpDevice fails once it has made this many
  std::map<std::string, std::string> environment = {};  // GetEnvConfigEntries
  std::map<std::string, std::string> session = {};      // GetSessionOptionsConfigEntries
};

// Two hosts can live in a process, with tables of their own; the second argument tells them apart.
class FakeHost {
 public:
  explicit FakeHost(FakeHostConfig config, int index = 0);
  FakeHost(const FakeHost&) = delete;
  FakeHost& operator=(const FakeHost&) = delete;

  const OrtApiBase* base() const;
  const std::vector<uint32_t>& asked_versions() const;
  static void Release(OrtStatus* status);

  // Of both hosts. Lines are "LEVEL text" with the level's number.
  static const std::vector<std::string>& log();
  static void ClearLog();
  static int live_objects();

  // Any address will do for what is only passed through. The last one is what the latest line was written to.
  static const OrtLogger* logger();
  static const OrtLogger* last_logger();

 private:
  const int index_;
};

}  // namespace cudaep::abi
