#include "ops/attention/attention_library.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/strings.h"
#include "device/device_info.h"
#include "kernels/attention/empty_rows.h"
#include "kernels/attention/flash.h"
#include "lib/dnn.h"
#include "ops/background_plan.h"

namespace cudaep::ops {
namespace {

using kernels::AttentionPointers;
using kernels::AttentionProblem;

constexpr int64_t kMostHeadSize = 256;

// In place of a plan that is not there yet, or never will be.
class OwnKernel final : public lib::Plan {
 public:
  OwnKernel() {
    workspace_bytes_ = AttentionLibrary::kWorkspaceBytes;
    choice_ = "own kernel";
  }
};
const LibraryPlanPtr& NotYet() {
  static const auto* const plan = new LibraryPlanPtr(std::make_shared<const OwnKernel>());
  return *plan;
}

bool IsCausal(const AttentionProblem& p) { return p.right == 0; }

// From how many multiplications on for each multiprocessor the library is expected to be ahead (docs/benchmarks.md,
// "Attention"): few, but for what the own kernels for all keys of a head at once do, which take no range of keys.
double LeastMultiplications(const AttentionProblem& p, const device::DeviceInfo& device, bool may_have_range) {
  if (may_have_range) return AttentionLibrary::kLeastMultiplications;
  const bool by_key = !p.bias || (p.bias_strides.head == 0 && p.bias_strides.query == 0);
  if (kernels::TakesWarpgroupHeads(p, device) && (by_key || kernels::HasAlignedBiasRows(p))) {
    const bool one_tile = p.keys <= kernels::kWholeRowsKeys;
    return one_tile ? std::numeric_limits<double>::infinity() : AttentionLibrary::kLeastOfWarpgroupHeads;
  }
  if (!by_key) return AttentionLibrary::kLeastMultiplications;
  const bool whole_rows = p.keys <= kernels::kWholeRowsKeys && p.head_size <= kernels::kWholeRowsHead;
  return whole_rows ? AttentionLibrary::kLeastOfWholeRows : AttentionLibrary::kLeastMultiplications;
}

bool IsLarge(const AttentionProblem& p, const device::DeviceInfo& device, bool may_have_range) {
  const double multiplications = static_cast<double>(p.batch * p.heads) * static_cast<double>(p.queries) *
                                 static_cast<double>(p.keys * p.head_size);
  return p.queries >= AttentionLibrary::kLeastQueries && p.keys >= AttentionLibrary::kLeastKeys &&
         multiplications >= LeastMultiplications(p, device, may_have_range) * device.multiprocessors;
}

// Without caps or windows.
bool IsCommon(const AttentionProblem& p) {
  return (IsCausal(p) || p.right == AttentionProblem::kUnbounded) && p.left == AttentionProblem::kUnbounded &&
         p.softcap == 0 && p.scores == kernels::AttentionScores::kNone;
}

// What is added, for each key at least, and of the whole batch.
bool HasTakenBias(const AttentionProblem& p) {
  const kernels::ScoreStrides& s = p.bias_strides;
  return !p.bias || (s.key == 1 && s.keys >= p.keys && s.batches == 0);
}

// Keys behind an entry's end are hidden from rows that mean something by causality alone, where queries and keys are
// the same rows.
bool Takes(const AttentionProblem& p, const AttentionPointers& at, const device::DeviceInfo& device) {
  const bool same_rows = p.queries == p.keys || at.key_end == nullptr;
  const bool whole = IsCausal(p) ? p.past == 0 && !p.from_end && same_rows : at.key_end == nullptr;
  const bool plain = IsCommon(p) && p.mask == kernels::AttentionMask::kNone && HasTakenBias(p) &&
                     std::isinf(p.masked) && at.key_begin == nullptr && at.sink == nullptr && !at.zero_sink;
  if (!whole || !plain || !IsLarge(p, device, at.key_end != nullptr)) return false;
  uintptr_t bits = p.bias ? reinterpret_cast<uintptr_t>(at.bias) : 0;
  for (const void* tensor : {at.q, at.k, at.v, static_cast<const void*>(at.y)}) {
    bits |= reinterpret_cast<uintptr_t>(tensor);
  }
  for (const kernels::AttentionStrides& strides : {p.q, p.k, p.v, p.y}) {
    bits |= static_cast<uintptr_t>(strides.batch | strides.head | strides.row) * SizeOf(p.type);
  }
  return bits % dnn::kTensorAlignment == 0;
}

void AddTo(PlanKey& key, const AttentionProblem& p) {
  key.Add(p.queries);
  key.Add(p.keys);
  for (const kernels::AttentionStrides& strides : {p.q, p.k, p.v, p.y}) {
    key.Add(strides.batch);
    key.Add(strides.head);
    key.Add(strides.row);
  }
  // The largest call of a plan may have a bias with other strides.
  if (p.bias) {
    for (const int64_t stride : {p.bias_strides.batch, p.bias_strides.head, p.bias_strides.query}) key.Add(stride);
  }
}

// What repeats has one element, and the stride that it had without gaps.
void PlaceBias(const AttentionProblem& p, dnn::AttentionShape& shape) {
  const kernels::ScoreStrides& s = p.bias_strides;
  shape.bias_dims = Shape{s.batch == 0 ? 1 : p.batch, s.head == 0 ? 1 : p.heads, s.query == 0 ? 1 : p.queries, p.keys};
  shape.bias_strides = Shape{s.batch, s.head, s.query, 1};
  for (int d = 2; d >= 0; --d) {
    int64_t& stride = shape.bias_strides[d];
    if (stride == 0) stride = shape.bias_dims[d + 1] * shape.bias_strides[d + 1];
  }
}

dnn::OpGraph GraphOf(const AttentionProblem& p) {
  const auto strides = [](const kernels::AttentionStrides& s) { return Shape{s.batch, s.head, s.row, 1}; };
  dnn::AttentionShape shape{.type = p.type,
                            .batch = p.batch,
                            .heads = p.heads,
                            .kv_heads = p.kv_heads,
                            .queries = p.queries,
                            .keys = p.keys,
                            .width = p.head_size,
                            .q_strides = strides(p.q),
                            .k_strides = strides(p.k),
                            .v_strides = strides(p.v),
                            .out_strides = strides(p.y),
                            .scale = static_cast<float>(p.scale),
                            .causal = IsCausal(p)};
  if (p.bias) PlaceBias(p, shape);
  return dnn::AttentionGraph(shape);
}

}  // namespace

bool AttentionLibrary::MaySuit(const AttentionProblem& p, const device::DeviceInfo& device) {
  return kFloat16Types.Contains(p.type) && p.compute == DataType::kFloat && device.major >= 8 &&
         p.head_size == p.v_head_size && p.head_size % 8 == 0 && p.head_size <= kMostHeadSize && IsCommon(p) &&
         IsLarge(p, device, IsCausal(p) || p.bias);  // a later call's bias may have other strides
}

Result<bool> AttentionLibrary::Enqueue(const OpContext& context, const AttentionProblem& problem,
                                       const AttentionPointers& at) {
  if (refused_.load(std::memory_order_relaxed) || !Takes(problem, at, context.runtime.device_info())) {
    return false;
  }
  PlanKey key;
  AddTo(key, problem);
  Entry* const entry = Find(key);
  if (entry == nullptr) {
    device::CaptureState capture = device::CaptureState::kNone;
    CUDAEP_RETURN_IF_ERROR(device::StreamCaptureState(context.stream(), &capture));
    // What is captured comes again, and so does what warms up for it.
    if (capture == device::CaptureState::kNone && context.runtime.workspace().IsPlain()) {
      Count(context, problem, key);
    } else {
      Add(context, problem, key);
    }
    return false;
  }
  const lib::Plan& plan = entry->slot->plan();
  if (&plan == NotYet().get()) {
    if (entry->slot->progress() != PlanSlot::Progress::kIdle) return false;
    const int calls = entry->idle_calls.fetch_add(1, std::memory_order_relaxed) + 1;
    if (calls % kRetryCalls == 0) Begin(context, problem, entry->slot);
    return false;
  }
  const Result<dnn::Handle*> handle = context.runtime.dnn();
  if (!handle.ok()) return false;
  void* tensors[5] = {const_cast<void*>(at.q), const_cast<void*>(at.k), const_cast<void*>(at.v)};
  size_t count = 3;
  if (problem.bias) tensors[count++] = const_cast<void*>(at.bias);
  tensors[count++] = at.y;
  Status queued = dnn::Enqueue(*handle.value(), static_cast<const dnn::GraphPlan&>(plan), {tensors, count}, at.scratch);
  if (queued.ok()) {
    queued_.fetch_add(1, std::memory_order_relaxed);
    // Where the bias hides all keys the library gives zeros, or, causal, the mean of later values: its mask is finite.
    if (problem.bias && (problem.empty_is_nan || IsCausal(problem))) {
      CUDAEP_RETURN_IF_ERROR(kernels::LaunchEmptyRows(problem, at, context.stream()));
    }
    return true;
  }
  if (queued.code() == StatusCode::kDeviceLost) return queued;
  device::CaptureState capture = device::CaptureState::kNone;
  CUDAEP_RETURN_IF_ERROR(device::StreamCaptureState(context.stream(), &capture));
  // What a capture refuses may run outside of it.
  if (capture == device::CaptureState::kNone) refused_.store(true, std::memory_order_relaxed);
  return false;
}

AttentionLibrary::Entry* AttentionLibrary::Find(const PlanKey& key) {
  const size_t count = entry_count_.load(std::memory_order_acquire);
  for (size_t i = 0; i < count; ++i) {
    if (std::ranges::equal(entries_[i].key, key.words())) return &entries_[i];
  }
  return nullptr;
}

// Threads may count a call too few: it comes again.
void AttentionLibrary::Count(const OpContext& context, const AttentionProblem& problem, const PlanKey& key) {
  const uint64_t hash = key.Hash();
  if (last_.exchange(hash, std::memory_order_relaxed) != hash) calls_.store(0, std::memory_order_relaxed);
  if (calls_.fetch_add(1, std::memory_order_relaxed) + 1 == kCalls) Add(context, problem, key);
}

void AttentionLibrary::Add(const OpContext& context, const AttentionProblem& problem, const PlanKey& key) {
  std::lock_guard lock(mutex_);
  const size_t count = entry_count_.load(std::memory_order_relaxed);
  if (count == kMostEntries || Find(key) != nullptr) return;
  const std::string text = StrCat("attention ", dnn::GraphText(GraphOf(problem)));
  Result<PlanSlotPtr> slot =
      PlanStore::Process().Get({.ordinal = context.runtime.ordinal(), .problem = text},
                               [](const std::string&) { return Result<LibraryPlanPtr>(NotYet()); });
  if (!slot.ok()) return;
  entries_[count].key.assign(key.words().begin(), key.words().end());
  entries_[count].slot = std::move(slot).value();
  entry_count_.store(count + 1, std::memory_order_release);
  if (&entries_[count].slot->plan() == NotYet().get()) Begin(context, problem, entries_[count].slot);
}

// What cannot be begun is tried again, like what fails.
void AttentionLibrary::Begin(const OpContext& context, const AttentionProblem& problem, const PlanSlotPtr& slot) {
  if (slot->progress() != PlanSlot::Progress::kIdle || !MayCompile(context.runtime)) return;
  auto make = [graph = GraphOf(problem)](dnn::Handle& handle) -> Result<LibraryPlanPtr> {
    CUDAEP_ASSIGN_OR_RETURN(const std::string version, dnn::Version());
    // Known to be wrong at times: cudnn-frontend refuses it, too.
    if (version.ends_with(" 9.10.0") || version.ends_with(" 9.10.1")) return NotSupported("attention of ", version);
    CUDAEP_ASSIGN_OR_RETURN(auto plan, dnn::MakePlan(handle, graph, kWorkspaceBytes));
    return LibraryPlanPtr(std::move(plan));
  };
  PlanStore::Process().ReplaceInBackground(slot, OnOwnHandle(context.runtime, std::move(make))).IgnoreError();
}

}  // namespace cudaep::ops
