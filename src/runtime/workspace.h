// Scratch memory of one stream: a block that serves every operator of the stream in turn.
//
// When a larger block is needed the old one is kept until the stream was waited for (DropOutgrown), since queued
// kernels may still use it. Where memory is short it is given up at once, with what was outgrown before; that waits for
// the kernels. Without a memory limit sizes double; under a limit a block is as large as asked for. A shrink of the
// device's memory takes all blocks along, also between two operators of a Run: the next one takes more.
// Ownership: blocks are reference-counted. Who holds one (Pin) keeps it; what a caller captured on a stream of its own
// is kept as long as the workspace. A workspace that belongs to a graph keeps everything until it ends, and is charged
// as BudgetKind::kGraphs. Blocks come from the memory's workspace allocator and go back after the stream's work: the
// driver waits for it, and so does a caller's allocator. Threads: one thread at a time (the one that runs the stream),
// but for PopIdle. Failure: kOutOfMemory when not even the bytes asked for are to be had.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <thread>
#include <vector>

#include "core/status.h"
#include "device/device.h"
#include "memory/device_memory.h"

namespace cudaep {

class Workspace final : private memory::KeptMemory {  // NOLINT(cppcoreguidelines-virtual-class-destructor)
 public:
  Workspace(std::shared_ptr<memory::DeviceMemory> memory, device::Stream stream);
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  // While it lives no block is taken away: from before Reserve until the work that uses the block is queued. Nested
  // ones are one. Nothing is done for 0 bytes.
  class Use {
   public:
    Use(Workspace& workspace, size_t bytes) : workspace_(bytes != 0 ? &workspace : nullptr) {
      if (workspace_ != nullptr && workspace_->uses_++ == 0) workspace_->BeginUse();
    }
    ~Use() {
      if (workspace_ != nullptr && --workspace_->uses_ == 0) workspace_->Unlock();
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    Workspace* const workspace_;
  };

  // A block of at least `bytes`, aligned to 256 bytes; null for 0. Allocates only when there is none as large; in that
  // case a capturing stream gets kFailedPrecondition: one Run before the capture sizes the workspace.
  Result<void*> Reserve(size_t bytes) {
    if (bytes <= bytes_ && !may_capture_) [[likely]] {
      is_reserved_ = true;
      return bytes == 0 ? nullptr : block_->data;
    }
    return bytes == 0 ? nullptr : ReserveSlow(bytes);
  }

  // The stream is its owner's, who may capture it: it is asked at each Reserve.
  void ExpectCaptures() { may_capture_ = true; }
  // The stream is a graph's own; to be said before the first Reserve.
  void BelongToGraph() { may_capture_ = is_graphs_ = true; }
  bool BelongsToGraph() const { return is_graphs_; }
  // Whether the stream is no graph's own, nor captured just now.
  bool IsPlain() const { return !may_capture_ || IsPlainNow(); }
  // Keeps the block of the last Reserve.
  std::shared_ptr<const void> Pin() const { return block_; }
  // The stream was waited for.
  void DropOutgrown();

  // The most a plan should ask for: what is there already, or a quarter of what the memory limit leaves, since tensors
  // need room too. SIZE_MAX without a limit.
  size_t PlanLimit() const;

  // While it lives, plans are made for at most `bytes` or the block that is there: the way on when growing has failed.
  class Ceiling {
   public:
    Ceiling(Workspace& workspace, size_t bytes) : workspace_(workspace) { workspace.ceiling_ = bytes; }
    ~Ceiling() { workspace_.ceiling_ = SIZE_MAX; }
    Ceiling(const Ceiling&) = delete;
    Ceiling& operator=(const Ceiling&) = delete;

   private:
    Workspace& workspace_;
  };

 private:
  struct Block {
    std::shared_ptr<memory::Allocator> allocator;
    void* data;
    memory::Budget* graphs;  // of the allocator, charged kGraphs instead of kWorkspace; null: not a graph's
    size_t bytes;
    ~Block();
  };

  bool IsPlainNow() const;
  Result<void*> ReserveSlow(size_t bytes);
  Status Grow(size_t bytes);
  bool GiveUpUnused();
  void PopIdle(std::vector<std::shared_ptr<void>>* idle) override;

  // The owner waits only while PopIdle moves pointers; PopIdle does not wait for the owner.
  bool TryLock() { return !locked_.exchange(true, std::memory_order_acquire); }
  void Lock() {
    while (!TryLock()) std::this_thread::yield();
  }
  void BeginUse() {
    Lock();
    is_reserved_ = false;
    outgrown_before_ = outgrown_.size();
  }
  void Unlock() { locked_.store(false, std::memory_order_release); }

  const std::shared_ptr<memory::DeviceMemory> memory_;
  const device::Stream stream_;
  bool may_capture_ = false;
  bool is_graphs_ = false;
  int uses_ = 0;                // of the stream's thread
  bool is_reserved_ = false;    // the block, in the outermost use
  size_t outgrown_before_ = 0;  // blocks that the outermost use has nothing to do with
  size_t ceiling_ = SIZE_MAX;
  std::atomic<bool> locked_{false};
  // Written under the lock, and read by the stream's thread without it outside of plans' sizes only.
  std::shared_ptr<Block> block_;
  std::atomic<size_t> bytes_{0};
  std::vector<std::shared_ptr<Block>> outgrown_;
  std::vector<std::shared_ptr<Block>> captured_;  // by the stream's owner
};

}  // namespace cudaep
