// A tool that listens to NVTX, as NVTX_INJECTION64_PATH names it: keeps the ranges that are open and those that were.
#include <nvtx3/nvToolsExt.h>

#include <string>
#include <vector>

namespace {

struct Seen {
  std::string domain;
  std::vector<std::string> begun;
  int open = 0;
} seen;

nvtxDomainHandle_t CreateDomain(const char* name) {
  seen.domain = name;
  return reinterpret_cast<nvtxDomainHandle_t>(&seen);
}
int PushRange(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event) {
  if (domain != reinterpret_cast<nvtxDomainHandle_t>(&seen)) return -1;
  seen.begun.emplace_back(event->message.ascii);
  return seen.open++;
}
int PopRange(nvtxDomainHandle_t) { return --seen.open; }

}  // namespace

#define FAKE_EXPORT extern "C" __attribute__((visibility("default")))

FAKE_EXPORT int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t tables) {
  const auto* callbacks = static_cast<const NvtxExportTableCallbacks*>(tables(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (callbacks == nullptr || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size)) return 0;
  if (size <= NVTX_CBID_CORE2_DomainCreateA) return 0;
  *table[NVTX_CBID_CORE2_DomainCreateA] = reinterpret_cast<NvtxFunctionPointer>(&CreateDomain);
  *table[NVTX_CBID_CORE2_DomainRangePushEx] = reinterpret_cast<NvtxFunctionPointer>(&PushRange);
  *table[NVTX_CBID_CORE2_DomainRangePop] = reinterpret_cast<NvtxFunctionPointer>(&PopRange);
  return 1;
}

FAKE_EXPORT const char* FakeDomain() { return seen.domain.c_str(); }
FAKE_EXPORT const char* FakeRange(size_t index) { return index < seen.begun.size() ? seen.begun[index].c_str() : ""; }
FAKE_EXPORT int FakeOpen() { return seen.open; }
