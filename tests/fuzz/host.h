// Stock ONNX Runtime with the plug-in registered, as the fuzzed application sees it: C ABI, no Python.
//
// One object a process. Failures of the set-up throw Ort::Exception; those of a case are results, not exceptions.
// After each case the provider's shared allocators must hold nothing, or the case has leaked.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "host_api/host_api.h"
#include "random.h"

namespace cudaep::fuzz {

// How far a case came, and what stopped it.
struct Outcome {
  bool created = false;
  bool ran = false;
  bool skipped = false;  // the Run: inputs too large or of no tensor type
  std::string error;     // the first status that was not OK
};

enum class Entry : char { kProviderOption = 'P', kSession = 'S', kEnvironment = 'E' };
struct Setting {
  Entry where;
  std::string key, value;
};

class Host {
 public:
  // `provider`: whether sessions use the plug-in; without it the host's own CPU provider shows whose fault a crash is.
  Host(const char* library, const char* plugin, bool provider);

  // Creates a session and, when that works, runs it once with inputs drawn from `random`.
  Outcome TryModel(const std::string& model, const std::vector<Setting>& settings, bool optimize, bool cpu_allowed,
                   Random& random);

  // What a text of the provider's may never say, or memory it did not give back; empty when all is well.
  std::string Problem(const Outcome& outcome);

  // A new environment, with entries for the provider's factory. The one before must have no sessions.
  void Restart(const std::vector<Setting>& settings);

 private:
  void Run(Ort::Session& session, Outcome* outcome, Random& random);
  void Start(const std::vector<Setting>& settings);
  std::string DeviceError();
  int64_t BytesHeld(OrtAllocatorType type, OrtDeviceMemoryType memory_type);

  const char* plugin_;
  bool provider_;
  Ort::Env env_{nullptr};
  const OrtEpDevice* device_ = nullptr;
};

}  // namespace cudaep::fuzz
