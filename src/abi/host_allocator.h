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

  const OrtMemoryInfo* info() const { return info_; }
  // Of values that come and go, on the device or in page-locked memory.
  bool serves_tensors() const { return serves_tensors_; }
  // Expires when the allocator ends.
  std::weak_ptr<const void> life() const { return life_; }
  // The session it was made for has ended. Whether none of its memory is alive; if some is, the last of it takes the
  // reference to the wrapped allocator along. To be called once, and nothing else but Free afterwards.
  bool SessionEnds() { return LetGo(); }

 private:
  HostAllocator(std::shared_ptr<memory::Allocator> allocator, const OrtMemoryInfo* info, memory::DeviceMemory* memory,
                std::shared_ptr<const std::atomic<bool>> spread, bool serves_tensors);
  void* OnAlloc(size_t bytes);
  void OnFree(void* pointer);
  const OrtMemoryInfo* OnInfo() const { return info_; }
  void* OnReserve(size_t bytes);
  void* OnAllocOnStream(size_t bytes, OrtSyncStream* stream);
  Status OnGetStats(OrtKeyValuePairs** stats) const;
  Status OnShrink();
  Result<void*> Serve(size_t bytes, device::Stream stream);
  void* Counted(Result<void*> pointer);
  bool LetGo();

  std::shared_ptr<memory::Allocator> allocator_;
  const OrtMemoryInfo* info_;
  // What the allocator belongs to, kept alive by it; null for pinned host memory.
  memory::DeviceMemory* const memory_;
  const std::shared_ptr<const std::atomic<bool>> spread_;
  const bool serves_tensors_;
  const std::shared_ptr<const void> life_ = std::make_shared<char>();
  const bool counts_;             // on hosts that abi/kept_allocators.h is for
  std::atomic<int64_t> uses_{1};  // live memory, and one for the session
};

}  // namespace cudaep::abi
