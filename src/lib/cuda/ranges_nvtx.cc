// NVTX is headers alone, which every CUDA toolkit has; where a build lacks them nobody is heard.
#include "lib/ranges.h"

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>

namespace cudaep::lib {
namespace {

// Null where no tool is attached.
nvtxDomainHandle_t Domain() {
  static const nvtxDomainHandle_t domain = nvtxDomainCreateA("ort-cuda-ep");
  return domain;
}

}  // namespace

bool RangesAreHeard() { return Domain() != nullptr; }

void BeginRange(const char* text) {
  nvtxEventAttributes_t attributes = {};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = text;
  nvtxDomainRangePushEx(Domain(), &attributes);
}

void EndRange() { nvtxDomainRangePop(Domain()); }

}  // namespace cudaep::lib

#else

namespace cudaep::lib {

bool RangesAreHeard() { return false; }
void BeginRange(const char*) {}
void EndRange() {}

}  // namespace cudaep::lib

#endif
