// A plug-in that loads the real one (CUDAEP_PROXIED_LIBRARY) and hands it a copy of the host's API table in which every
// function first counts itself. x86-64 only; the host must know the API version of the headers in full.
#include <dlfcn.h>
#include <onnxruntime_c_api.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#define CUDAEP_EXPORT extern "C" __attribute__((visibility("default")))

namespace {
constexpr size_t kSlots = sizeof(OrtApi) / sizeof(void*);
}

extern "C" {
__attribute__((visibility("hidden"))) uint64_t counting_proxy_counts[kSlots];
__attribute__((visibility("hidden"))) void* counting_proxy_originals[kSlots];
}

namespace {

// Counts the call and jumps on: registers and stack stay as they are, so one thunk serves every signature.
template <size_t kSlot>
__attribute__((naked)) void Count() {
  asm volatile(
      "lock incq counting_proxy_counts+%c0(%%rip)\n\t"
      "jmp *counting_proxy_originals+%c0(%%rip)" ::"i"(kSlot * sizeof(void*)));
}

template <size_t... kSlot>
constexpr std::array<void (*)(), kSlots> Thunks(std::index_sequence<kSlot...>) {
  return {&Count<kSlot>...};
}

OrtApi g_api;
const OrtApiBase* g_base = nullptr;

const OrtApi* ORT_API_CALL GetApi(uint32_t version) noexcept {
  const OrtApi* original = g_base->GetApi(version);
  if (original == nullptr || version != ORT_API_VERSION) return original;
  std::memcpy(counting_proxy_originals, original, sizeof(OrtApi));
  static constexpr auto kThunks = Thunks(std::make_index_sequence<kSlots>{});
  std::memcpy(static_cast<void*>(&g_api), kThunks.data(), sizeof(OrtApi));
  return &g_api;
}

const char* ORT_API_CALL GetVersionString() noexcept { return g_base->GetVersionString(); }

void* RealLibrary() {
  static void* library = dlopen(std::getenv("CUDAEP_PROXIED_LIBRARY"), RTLD_NOW | RTLD_LOCAL);
  return library;
}

}  // namespace

CUDAEP_EXPORT OrtStatus* CreateEpFactories(const char* name, const OrtApiBase* base, const OrtLogger* logger,
                                           OrtEpFactory** factories, size_t max_factories, size_t* count) {
  g_base = base;
  static const OrtApiBase proxy{GetApi, GetVersionString};
  const auto create = reinterpret_cast<CreateEpApiFactoriesFn>(dlsym(RealLibrary(), "CreateEpFactories"));
  return create(name, &proxy, logger, factories, max_factories, count);
}

CUDAEP_EXPORT OrtStatus* ReleaseEpFactory(OrtEpFactory* factory) {
  return reinterpret_cast<ReleaseEpApiFactoryFn>(dlsym(RealLibrary(), "ReleaseEpFactory"))(factory);
}

// Calls into the host since the last reset, all functions together.
CUDAEP_EXPORT uint64_t CountingProxyTotal() {
  uint64_t total = 0;
  for (uint64_t count : counting_proxy_counts) total += count;
  return total;
}
CUDAEP_EXPORT void CountingProxyReset() { std::memset(counting_proxy_counts, 0, sizeof(counting_proxy_counts)); }
