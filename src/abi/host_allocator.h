// The host's view of an allocator: OrtAllocator over the project's contract.
//
// Holds a reference to the allocator it wraps, so memory of a value that outlives session and factory can still be
// freed through it. Failure is a null pointer here; the text goes to the log.
#pragma once

#include <memory>

#include "abi/host.h"
#include "memory/allocator.h"

namespace cudaep::abi {

class HostAllocator : public OrtAllocator {
 public:
  // `info` must outlive the allocator; it is the one given to the host at registration.
  HostAllocator(std::shared_ptr<memory::Allocator> allocator, const OrtMemoryInfo* info);

 private:
  void* OnAlloc(size_t bytes);
  void OnFree(void* pointer);
  const OrtMemoryInfo* OnInfo() const { return info_; }
  void* OnReserve(size_t bytes);
  void* OnAllocOnStream(size_t bytes, OrtSyncStream* stream);
  Status OnGetStats(OrtKeyValuePairs** stats) const;
  Status OnShrink();

  std::shared_ptr<memory::Allocator> allocator_;
  const OrtMemoryInfo* info_;
};

}  // namespace cudaep::abi
