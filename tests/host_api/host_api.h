// Stock ONNX Runtime with the plug-in registered, for C++ test programs and benches. What needs no set-up of its own
// they take from the host's C++ interface, which this header brings along.
//
// One host a process: LoadHost comes first. Whatever fails throws Ort::Exception. Environments, sessions and streams
// are owned by the caller, who ends them in that order's reverse.
#pragma once

#include <onnxruntime_cxx_api.h>

#include <string>
#include <utility>
#include <vector>

namespace cudaep::host_api {

// The name that the plug-in is registered under, which is its provider's name too.
inline constexpr const char* kProvider = "CUDAExecutionProvider";
// With the value 1 a session that would leave a node to the CPU is an error.
inline constexpr const char* kNoCpuFallback = "session.disable_cpu_ep_fallback";

// Configuration entries and options: keys with values, in the order in which the host is given them.
using Entries = std::vector<std::pair<std::string, std::string>>;

[[noreturn]] void Fail(const std::string& text);

// Loads libonnxruntime.so, until the process ends, and gives its version. Ort's classes use the newest API that it and
// the headers know.
std::string LoadHost(const char* library);

Ort::Env MakeEnv(const char* log_id, OrtLoggingLevel level, const Entries& entries = {});

// Registers the plug-in; the result is its first device, valid until it is unregistered or the environment ends.
const OrtEpDevice* RegisterPlugin(Ort::Env& env, const char* plugin);

// Lets sessions use `device`. Options go to the provider as they are, the same one twice too.
void AppendDevice(Ort::SessionOptions& options, Ort::Env& env, const OrtEpDevice* device,
                  const Entries& provider_options = {});

// Settings of a session whose every node runs on `device`, or it does not open.
Ort::SessionOptions AllNodesOn(Ort::Env& env, const OrtEpDevice* device, const Entries& provider_options = {});

// Names an allocator of the plug-in's first device: of tensors, of weights (read-only), or of page-locked memory.
Ort::MemoryInfo DeviceMemory(OrtAllocatorType type = OrtDeviceAllocator,
                             OrtDeviceMemoryType memory = OrtDeviceMemoryType_DEFAULT);
// Ordinary memory of this process.
Ort::MemoryInfo HostMemory();

// A stream of the plug-in's for an application's Runs; options as docs/guides/streams.md has them.
Ort::SyncStream MakeStream(const OrtEpDevice* device, const Entries& options = {});

// KEY=VALUE as a pair; without a = the value is empty.
std::pair<std::string, std::string> SplitEntry(const std::string& entry);

// `text` as a JSON string.
std::string Quoted(const std::string& text);

}  // namespace cudaep::host_api
