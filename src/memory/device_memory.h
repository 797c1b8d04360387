// The memory of one device under one configuration: what sessions share, or what one session has to itself.
//
// Three allocators charge one budget: the device allocator (arena, pool, none or the caller's callbacks) for tensors
// that come and go, one for weights and one for scratch memory. Pinned host memory is one arena a device, whatever the
// configuration, and is charged to nobody.
//
// Ownership: the allocators handed out keep this object alive, so a value may outlive session, provider and library
// registration. The registry (memory/memory_registry.h) makes and shares these objects; it holds weak references.
// Threads: all functions may be called from any thread.
// Failure: creating a pool may fail; nothing else here does.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "memory/allocator.h"
#include "memory/budget.h"
#include "memory/device_allocators.h"
#include "memory/memory_config.h"

namespace cudaep::memory {

// Device memory that is kept beside the allocators for later (a stream's workspace).
class KeptMemory {
 public:
  // What is not needed just now, to be freed by the caller; from any thread.
  virtual void PopIdle(std::vector<std::shared_ptr<void>>* idle) = 0;

 protected:
  ~KeptMemory() = default;
};

class DeviceMemory : public std::enable_shared_from_this<DeviceMemory> {
 public:
  // `pinned` is the device's arena of page-locked host memory.
  static Result<std::shared_ptr<DeviceMemory>> Create(const MemoryConfig& config, std::shared_ptr<Allocator> pinned);

  const MemoryConfig& config() const { return config_; }
  Budget& budget() const { return *budget_; }

  std::shared_ptr<Allocator> tensors() { return Alias(*allocators_.tensors); }
  // Initialisers: read-only, for the life of a session.
  std::shared_ptr<Allocator> weights() { return Alias(*allocators_.weights); }
  // Scratch blocks of streams (runtime/workspace.h).
  std::shared_ptr<Allocator> workspaces() { return Alias(*allocators_.workspaces); }
  std::shared_ptr<Allocator> pinned() const { return pinned_; }

  // As in the allocator contract, for every allocator that knows streams.
  void AddStream(device::Stream stream);
  void ExpectCaptures(device::Stream stream);
  Status BelongToGraph(device::Stream stream);
  void ReleaseStream(device::Stream stream);
  struct Moment {
    StreamMark tensors, pinned;
  };
  Moment Mark(device::Stream stream);
  void Reached(const Moment& moment);

  // Memory that takes part in Shrink, until it is removed.
  void AddKept(KeptMemory* kept);
  void RemoveKept(KeptMemory* kept);
  // The allocators' figures, each once: with callbacks of the caller `tensors` has all of them.
  struct Statistics {
    AllocatorStats tensors, weights, workspaces;
  };
  Statistics Stats() const;
  // Idle memory of tensors and workspaces goes back to the driver (Allocator::Shrink).
  Status Shrink();

  // A session uses this memory. When the last one ends, what no value occupies goes back to the driver.
  void AddSession() { sessions_.fetch_add(1); }
  void RemoveSession();

 private:
  DeviceMemory(const MemoryConfig& config, std::shared_ptr<Allocator> pinned);
  std::shared_ptr<Allocator> Alias(Allocator& allocator) { return {shared_from_this(), &allocator}; }

  const MemoryConfig config_;
  const std::shared_ptr<Budget> budget_;
  const std::shared_ptr<Allocator> pinned_;
  DeviceAllocators allocators_;
  std::atomic<int> sessions_{0};
  std::mutex kept_mutex_;
  std::vector<KeptMemory*> kept_;  // guarded by kept_mutex_
};

}  // namespace cudaep::memory
