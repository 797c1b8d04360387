// The three functions the library exports: two that the host calls, and one for whoever watches a server.
#include <cstring>
#include <mutex>

#include "abi/factory.h"
#include "abi/forked.h"
#include "abi/host.h"
#include "abi/statistics.h"
#include "lib/loader.h"
#include "memory/memory_registry.h"
#include "runtime/plan_store.h"

#define CUDAEP_EXPORT extern "C" __attribute__((visibility("default")))

CUDAEP_EXPORT OrtStatus* ReleaseEpFactory(OrtEpFactory* factory);
CUDAEP_EXPORT size_t OrtCudaEpStatistics(char* text, size_t capacity) noexcept;

namespace {

// A process can hold two copies of the host, which find the same copy of this library: the host's tables must not
// change under a live factory.
constinit std::mutex g_mutex;
constinit int g_live_factories = 0;  // guarded by g_mutex

}  // namespace

CUDAEP_EXPORT OrtStatus* CreateEpFactories(const char* registration_name, const OrtApiBase* api_base,
                                           const OrtLogger* logger, OrtEpFactory** factories, size_t max_factories,
                                           size_t* factory_count) {
  using cudaep::abi::Factory;
  *factory_count = 0;
  std::lock_guard lock(g_mutex);
  bool found = false;
  try {
    if (OrtStatus* error = cudaep::abi::NegotiateHost(api_base, g_live_factories > 0, &found)) return error;
    if (!found) return nullptr;  // nothing can be said to a host without any C API
    if (max_factories < 1) {
      return cudaep::abi::ToOrt(cudaep::InvalidArgument("the host offers no room for a factory"));
    }
    cudaep::Result<std::unique_ptr<Factory>> factory = Factory::Create(registration_name, logger);
    if (!factory.ok()) return cudaep::abi::ToOrt(factory.status());
    cudaep::abi::LogMissingFeatures();
    factories[0] = factory.value().release();
    *factory_count = 1;
    ++g_live_factories;
    return nullptr;
  } catch (...) {
    const OrtApi* const ort = found ? cudaep::abi::Host().ort : api_base->GetApi(1);
    return ort == nullptr ? nullptr : cudaep::abi::StatusOfException(ort);
  }
}

CUDAEP_EXPORT OrtStatus* ReleaseEpFactory(OrtEpFactory* factory) {
  if (factory == nullptr || cudaep::abi::IsForked()) return nullptr;
  std::lock_guard lock(g_mutex);
  --g_live_factories;
  static_cast<cudaep::abi::Factory*>(factory)->StopLogging();
  cudaep::PlanStore::Process().StopBackground();  // plans in the making hold memory
  if (cudaep::memory::IsMemoryHeld()) {
    // Sessions or values outlive the environment. Newer hosts unmap the library after this call, and then end them
    // through it: they keep their factory, and the code.
    cudaep::lib::StayMapped();
    return nullptr;
  }
  delete static_cast<cudaep::abi::Factory*>(factory);
  return nullptr;
}

// Statistics of the process as UTF-8 JSON with a null at its end (abi/statistics.h). Returns the bytes that takes;
// nothing is written where `capacity` is less. 0 where host memory ran out, and in a child forked after the
// registration: there, locks may be held by threads that did not come along.
CUDAEP_EXPORT size_t OrtCudaEpStatistics(char* text, size_t capacity) noexcept {
  if (cudaep::abi::IsForked()) return 0;
  try {
    const std::string statistics = cudaep::abi::StatisticsText();
    const size_t bytes = statistics.size() + 1;
    if (text != nullptr && bytes <= capacity) std::memcpy(text, statistics.c_str(), bytes);
    return bytes;
  } catch (...) {
    return 0;
  }
}
