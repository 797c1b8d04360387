// Keeps a session's allocators alive on hosts that end them wrongly.
//
// Hosts before 1.28 read the session's provider when an allocator of that session ends, and it ends with its last
// value, which may be long after the session: they read freed memory then. So the provider holds a reference to the
// host's allocators from the first kernel on. It lets go of it when it ends itself; where values are alive, never. What
// stays for such a session is some hundred bytes of the host's; the values' memory goes back with them all the same.
//
// Threads: the host creates kernels and ends a provider one at a time; first calls of regions may be concurrent.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "abi/host.h"
#include "abi/host_allocator.h"

namespace cudaep::abi {

class KeptAllocators {
 public:
  KeptAllocators() = default;
  KeptAllocators(const KeptAllocators&) = delete;
  KeptAllocators& operator=(const KeptAllocators&) = delete;
  // The provider ends.
  ~KeptAllocators();

  // An allocator of the session that the host gets.
  void Add(HostAllocator* allocator) { made_.push_back({allocator, allocator->life()}); }
  // Takes the references, once, through a kernel of the session, or the first call of a compiled region.
  void Keep(const OrtKernelInfo* info);
  void Keep(const OrtKernelContext* context);

 private:
  struct Made {
    HostAllocator* allocator;
    std::weak_ptr<const void> life;  // the host may have ended it again
  };
  struct Kept {
    HostAllocator* ours;
    OrtAllocator* host;
  };
  void Keep(const OrtKernelInfo* info, OrtMemType type, OrtDeviceMemoryType memory);

  std::vector<Made> made_;
  std::vector<Kept> kept_;
  std::atomic<bool> tried_{false};
};

}  // namespace cudaep::abi
