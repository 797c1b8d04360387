// Runs the threads of one block at a time on the calling OS thread, as lazy fibers.
//
// A fiber runs the threads of a block in a plain loop; only when a thread blocks (barrier, warp operation) is its fiber
// parked and another takes the next thread that has not started. A kernel without barriers runs at loop speed on one.
//
// Threads: one OS thread at a time, which the scheduler guarantees. Failure: a thread that breaks a rule, or a block in
// which nobody can go on, abandons the launch; Run returns the reason. Abandoned threads are never resumed, so objects
// with destructors on a kernel's stack would leak: kernels have none.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "core/status.h"
#include "device/sim/copy_engine.h"
#include "device/sim/kernel_call.h"
#include "device/sim/sanitizers.h"
#include "device/sim/shared_memory.h"

namespace cudaep::device::sim {
struct Index3 {
  unsigned x = 0, y = 0, z = 0;
};
}  // namespace cudaep::device::sim

// CUDA's built-in variables, by their CUDA names.
inline constinit cudaep::device::sim::Index3 threadIdx{};
inline constinit cudaep::device::sim::Index3 blockIdx{};
inline constinit cudaep::device::sim::Index3 blockDim{};
inline constinit cudaep::device::sim::Index3 gridDim{};
inline constexpr int warpSize = 32;

namespace cudaep::device::sim {

enum class ThreadOrder : uint8_t { kForward, kReversed, kRandom };

class BlockExecutor {
 public:
  static constexpr unsigned kMaxThreads = 1024;

  // The one whose threads run.
  static BlockExecutor& Get();

  // `arguments` stays where it is until the launch has run, and stands for it.
  struct LaunchedKernel {
    AnyKernel kernel;
    const KernelSignature* signature;
    const std::byte* arguments;
    const LaunchConfig* config;
  };
  // Runs every block of a launch. On failure the text names block and thread; the kernel's name is the caller's part.
  static Status Run(const LaunchedKernel& launch);
  // Runs the first block of `dependent`, a programmatic launch, as far as its threads get without the predecessor,
  // which is about to run: until they wait in GridDependencyWait. Run goes on with it. Where no executor is free
  // nothing happens. `likeness`: launches of a kernel with the same one write the same shared memory until then.
  static void RunAhead(const LaunchedKernel& predecessor, const LaunchedKernel& dependent, uint64_t likeness);
  // A new machine: order of threads, and nothing was begun.
  static void Configure(ThreadOrder order, uint64_t seed);

  // ---- Called by the loop over a block's threads (kernel_call.h), which runs on every fiber ----
  // Makes the next thread current; false when all have started.
  bool BeginThread() {
    if (started_ == total_) return false;
    const unsigned index = started_++;
    if (order_ != ThreadOrder::kForward || kThreadSanitizer) {
      PlaceThread(index);
      return true;
    }
    self_->index = index;
    if (index == 0) {
      next_ = {};
    } else if (++next_.x == blockDim.x) {
      next_.x = 0;
      if (++next_.y == blockDim.y) next_.y = 0, ++next_.z;
    }
    threadIdx = next_;
    return true;
  }
  void EndThread() {
    if constexpr (kThreadSanitizer) LeaveThread();
    const unsigned index = self_->index, warp = index / 32;
    ++exited_;
    gone_[warp] |= 1u << (index & 31);
    if ((arrived_ | waiting_[warp]) != 0) ThreadExited(index);
  }

  // ---- Called by kernel code ----
  void* shared() { return shared_.data(); }
  unsigned lane() const;
  void SyncBlock();
  // The barrier, and for how many threads of the block `predicate` held.
  int SyncBlockCount(bool predicate);
  void SyncWarp(unsigned mask);
  unsigned Ballot(unsigned mask, bool predicate);
  // Lanes that have not exited and are not known to be elsewhere: those of the calling thread's warp still running.
  unsigned ActiveMask() const;
  template <class T>
  T Shuffle(unsigned mask, T value, unsigned source) {
    static_assert(sizeof(T) <= sizeof(Slot) && std::is_trivially_copyable_v<T>);
    Slot slot;
    std::memcpy(slot.bytes, &value, sizeof(T));
    Exchange(mask, &slot, source);
    std::memcpy(&value, slot.bytes, sizeof(T));
    return value;
  }
  // Waits until all 32 lanes have come with an operand each; the last one to come calls `compute` with them, by lane.
  using WarpFunction = void (*)(void* const* operands);
  void ComputeInWarp(WarpFunction compute, void* operand);
  // Asynchronous copies and their barriers (device/async_copy.h).
  void CopyAsync(void* to, const void* from, unsigned bytes, unsigned valid);
  void CommitCopies();
  void WaitForCopies(unsigned pending);
  void InitBarrier(uint64_t* barrier, unsigned arrivals);
  void ArriveAtBarrier(uint64_t* barrier, unsigned bytes);
  void ArriveAfterCopies(uint64_t* barrier);
  void BulkCopy(void* to, const void* from, unsigned bytes, uint64_t* barrier);
  void BulkStore(void* to, const void* value, uint64_t* barrier);
  void WaitAtBarrier(uint64_t* barrier, unsigned parity);
  // GridDependencyWait().
  void WaitForDependency();
  [[noreturn]] void Fail(std::string reason);

 private:
  struct Slot {
    alignas(16) unsigned char bytes[16];
  };
  enum class Wait : uint8_t { kNone, kBlock, kSyncWarp, kShuffle, kBallot, kCompute, kCopyBarrier, kDependency };
  struct Fiber {
    ~Fiber();
    void* context = nullptr;
    const void* bottom = nullptr;
    size_t stack_bytes = 0;
    void* map = nullptr;
    size_t map_bytes = 0;
    void* fake_stack = nullptr;  // ASan's
    void* tsan = nullptr;        // of the thread that runs on it, own_tsan between threads
    void* own_tsan = nullptr;
    Index3 thread;       // while parked
    unsigned index = 0;  // of the thread in its block
    Wait wait = Wait::kNone;
    const uint64_t* barrier = nullptr;  // that it waits at
  };
  struct Warp;
  struct Switching;  // the only code that touches Boost.Context
  static constexpr unsigned kWarps = kMaxThreads / 32;
  // A queue of fibers that may go on; at most one entry per thread of the block.
  struct Ring {
    std::array<Fiber*, kMaxThreads> slots;
    unsigned head = 0, tail = 0;
    bool empty() const { return head == tail; }
    void Push(Fiber* fiber) { slots[tail++ % kMaxThreads] = fiber; }
    Fiber* Pop() { return slots[head++ % kMaxThreads]; }
  };

  BlockExecutor();
  ~BlockExecutor();

  static const char* WaitName(Wait wait);
  static std::array<BlockExecutor*, 2>& Both();
  void Prepare(const LaunchedKernel& launch);
  Status RunBlocks();
  void PlaceBlock(uint64_t started);
  uint64_t Shape() const;
  void BeginBlock();
  void ResumeBlock();
  bool EndBlock();
  void PlaceThread(unsigned started);
  void LeaveThread();
  void ThreadExited(unsigned index);
  void Exchange(unsigned mask, Slot* slot, unsigned source);
  void MeetWarp(Wait wait, unsigned mask);
  void FinishWarp(unsigned index, unsigned lanes, const Fiber* self);
  void OpenBarrier(const Fiber* self);
  void FailIf(CopyEngine::Error error);
  void WakeAtBarrier(const uint64_t* barrier);
  void Park(Fiber* self);
  Fiber* NextReady();
  Fiber* TakeIdle();
  std::unique_ptr<Fiber> MakeFiber();
  void PrepareShared(size_t bytes);
  void Abandon();
  std::string DescribeStuck() const;
  std::string BlockName() const;
  std::string Where() const;

  LaunchedKernel launch_{};
  uint64_t blocks_ = 0, block_stride_ = 1, block_shift_ = 0;  // in random order as for threads
  size_t shared_bytes_ = 0;
  bool ahead_ = false;   // the first block has begun
  bool hold_ = false;    // threads stop in GridDependencyWait
  bool waited_ = false;  // a thread of the block has called it
  Index3 ahead_block_;
  SharedMemory::Taken ahead_shared_;
  unsigned total_ = 0, started_ = 0, exited_ = 0, arrived_ = 0;
  int votes_ = 0, vote_result_ = 0;
  std::string failure_;
  ThreadOrder order_ = ThreadOrder::kForward;
  uint64_t random_ = 1;
  unsigned stride_ = 1, shift_ = 0;  // random order: thread (n * stride + shift) mod total starts n-th
  Index3 next_;                      // the thread placed last, for the forward walk
  Fiber* self_ = nullptr;
  Fiber* entering_ = nullptr;
  std::unique_ptr<Fiber> main_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_;
  std::array<Fiber*, kMaxThreads> by_thread_{};      // fibers of threads that have met anybody
  std::array<unsigned, kWarps> gone_{}, waiting_{};  // lanes that exited, lanes parked in a warp operation
  Ring hot_, ready_;  // a warp that met goes first: its 32 stacks are still in the L1 cache
  std::unique_ptr<Warp[]> warps_;
  std::vector<Slot> shared_;
  CopyEngine copies_;
  unsigned at_copy_barriers_ = 0;  // threads parked there
  std::vector<void*> tsan_threads_;
};

}  // namespace cudaep::device::sim
