// The host's view of an allocator: OrtAllocator over the project's contract.
//
// Holds a reference to the allocator it wraps, so memory of a value that outlives session and factory can still be
// freed through it. Failure is a null pointer here; the text goes to the log and to whoever meets the null pointer next
// (abi/allocation_failure.h).
#pragma once

#include <atomic>
#include <memory>

#include "abi/host.h"
#include "memory/device_memory.h"

namespace cudaep::abi {

class HostAllocator : public OrtAllocator {
 public:
  // The one that `info` speaks of: tensors, weights or pinned host memory. `info` must outlive the allocator; it is the
  // one given to the host at registration. `spread` (null: never) says that Runs use memory on other streams than the
  // one it is asked for; the tag is left out then, so that memory changes hands after all streams' work.
  static Result<HostAllocator*> Create(memory::DeviceMemory& memory, const OrtMemoryInfo* info,
                                       std::shared_ptr<const std::atomic<bool>> spread = nullptr);

 private:
  HostAllocator(std::shared_ptr<memory::Allocator> allocator, const OrtMemoryInfo* info, const memory::Budget* budget,
                std::shared_ptr<const std::atomic<bool>> spread);
  void* OnAlloc(size_t bytes);
  void OnFree(void* pointer);
  const OrtMemoryInfo* OnInfo() const { return info_; }
  void* OnReserve(size_t bytes);
  void* OnAllocOnStream(size_t bytes, OrtSyncStream* stream);
  Status OnGetStats(OrtKeyValuePairs** stats) const;
  Status OnShrink();

  std::shared_ptr<memory::Allocator> allocator_;
  const OrtMemoryInfo* info_;
  // The account the allocator belongs to, kept alive by it; null for pinned host memory.
  const memory::Budget* budget_;
  const std::shared_ptr<const std::atomic<bool>> spread_;
};

}  // namespace cudaep::abi
