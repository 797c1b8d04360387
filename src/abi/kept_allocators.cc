#include "abi/kept_allocators.h"

namespace cudaep::abi {

void KeptAllocators::Keep(const OrtKernelInfo* info) {
  if (Host().allocators_outlive_sessions || tried_.load(std::memory_order_relaxed) || tried_.exchange(true)) return;
  Keep(info, OrtMemTypeDefault, OrtDeviceMemoryType_DEFAULT);
  Keep(info, OrtMemTypeCPUOutput, OrtDeviceMemoryType_HOST_ACCESSIBLE);
}

void KeptAllocators::Keep(const OrtKernelInfo* info, OrtMemType type, OrtDeviceMemoryType memory) {
  const OrtApi& ort = *Host().ort;
  OrtAllocator* host = nullptr;
  if (OrtStatus* error = ort.KernelInfoGetAllocator(info, type, &host)) return ort.ReleaseStatus(error);
  const OrtMemoryInfo* about = nullptr;
  if (OrtStatus* error = ort.AllocatorGetInfo(host, &about)) ort.ReleaseStatus(error);
  if (about != nullptr && ort.MemoryInfoGetDeviceMemType(about) == memory) {
    for (const auto& [ours, life] : made_) {
      if (life.expired() || !ours->serves_tensors()) continue;
      if (ort.MemoryInfoGetDeviceMemType(ours->info()) != memory) continue;
      kept_.push_back({ours, host});
      return;
    }
  }
  ort.ReleaseAllocator(host);  // the CPU's
}

void KeptAllocators::Keep(const OrtKernelContext* context) {
  if (Host().allocators_outlive_sessions || tried_.load(std::memory_order_relaxed) || tried_.exchange(true)) return;
  const OrtApi& ort = *Host().ort;
  for (const auto& [ours, life] : made_) {
    if (life.expired() || !ours->serves_tensors()) continue;
    OrtAllocator* host = nullptr;
    if (OrtStatus* error = ort.KernelContext_GetAllocator(context, ours->info(), &host)) {
      ort.ReleaseStatus(error);
    } else {
      kept_.push_back({ours, host});
    }
  }
}

KeptAllocators::~KeptAllocators() {
  for (const Kept& kept : kept_) {
    if (kept.ours->SessionEnds()) Host().ort->ReleaseAllocator(kept.host);
  }
}

}  // namespace cudaep::abi
