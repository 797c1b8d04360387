// Attention by cuDNN's fused kernels, for lengths that come again and again.
//
// The library compiles at run time, for exact lengths, and takes long for it. So its plans are made in the background,
// for lengths that kCalls calls in a row had or that are captured, as many as CompileBudget has, and until one is there
// the own kernel runs, as it does for whatever the library refuses. Nodes of the same lengths share a plan
// (runtime/plan_store.h). What fails for want of memory or a thread is tried again after kRetryCalls calls; what the
// library cannot do is not. Bits differ between the two: not for deterministic sessions. Threads: Enqueue may run on
// many threads at once.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "kernels/attention/attention.h"
#include "ops/operator.h"
#include "runtime/plan_store.h"

namespace cudaep::ops {

class AttentionLibrary {
 public:
  static constexpr int kCalls = 3;
  static constexpr int kRetryCalls = 256;
  static constexpr size_t kMostEntries = 8;
  static constexpr int64_t kLeastQueries = 112, kLeastKeys = 64;  // the library's tiles have 128 queries
  // Multiplications of either product, for each multiprocessor.
  static constexpr double kLeastMultiplications = 1 << 15, kLeastOfWholeRows = 1 << 21,
                          kLeastOfWarpgroupHeads = 1 << 22;
  static constexpr size_t kWorkspaceBytes = size_t{1} << 20;

  // Whether calls of at most these lengths may be the library's, by types and sizes.
  static bool MaySuit(const kernels::AttentionProblem& most, const device::DeviceInfo& device);

  // Queues the call and says true, or leaves it to the own kernel. `at.scratch` has kWorkspaceBytes.
  Result<bool> Enqueue(const OpContext& context, const kernels::AttentionProblem& problem,
                       const kernels::AttentionPointers& at);

  // Calls that the library took.
  uint64_t queued() const { return queued_.load(std::memory_order_relaxed); }

 private:
  // The plan of some lengths.
  struct Entry {
    std::vector<int64_t> key;
    PlanSlotPtr slot;
    std::atomic<int> idle_calls{0};  // without a plan, while none is in the making
  };

  Entry* Find(const PlanKey& key);
  void Count(const OpContext& context, const kernels::AttentionProblem& problem, const PlanKey& key);
  void Add(const OpContext& context, const kernels::AttentionProblem& problem, const PlanKey& key);
  static void Begin(const OpContext& context, const kernels::AttentionProblem& problem, const PlanSlotPtr& slot);

  std::atomic<bool> refused_{false};  // a plan failed when it ran: the own kernel from then on
  std::atomic<uint64_t> queued_{0};
  std::atomic<uint64_t> last_{0};  // hash of the last call's lengths that have no entry
  std::atomic<int> calls_{0};      // in a row that had them
  std::mutex mutex_;               // of whoever adds
  std::array<Entry, kMostEntries> entries_;
  std::atomic<size_t> entry_count_{0};  // of those that are whole and stay as they are
};

}  // namespace cudaep::ops
