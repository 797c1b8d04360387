#include "ops/planned_operator.h"

#include <algorithm>
#include <cstring>

#include "core/checked_math.h"

namespace cudaep::ops {
namespace {

// A key is, for each input: -1 when absent; else rank, dimensions and, for host inputs, the padded bytes of the value.
constexpr int64_t kAbsent = -1;

size_t ValueWords(const TensorView& input) { return CeilDiv<size_t>(input.bytes(), sizeof(int64_t)); }

}  // namespace

PlannedOperator::~PlannedOperator() = default;

Status PlannedOperator::Init(const OpInfo& info) {
  CUDAEP_ASSIGN_OR_RETURN(op_, MakeOperator(info));
  output_count_ = static_cast<size_t>(info.output_count());
  for (int index : FindRow(info.domain(), info.op_type(), info.since_version())->host_inputs) {
    if (op_->PlanReadsHostInput(index)) host_values_ |= uint64_t{1} << index;
  }
  return Status::Ok();
}

bool PlannedOperator::Matches(const Entry& entry, TensorViews inputs) const {
  const int64_t* word = entry.key.data();
  const int64_t* const end = word + entry.key.size();
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TensorView& input = inputs[i];
    if (word == end) return false;
    if (!input.present()) {
      if (*word++ != kAbsent) return false;
      continue;
    }
    if (*word++ != input.rank || end - word < input.rank) return false;
    for (int d = 0; d < input.rank; ++d) {
      if (*word++ != input.dim[d]) return false;
    }
    if (host_values_ != 0 && IsKeyedByValue(i)) {
      // Equal dimensions make equal sizes, so the value is there.
      const size_t bytes = input.bytes();
      if (bytes != 0 && std::memcmp(word, input.data, bytes) != 0) return false;
      word += ValueWords(input);
    }
  }
  return word == end;
}

std::vector<int64_t> PlannedOperator::KeyOf(TensorViews inputs) const {
  std::vector<int64_t> key;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TensorView& input = inputs[i];
    if (!input.present()) {
      key.push_back(kAbsent);
      continue;
    }
    key.push_back(input.rank);
    key.insert(key.end(), input.dim, input.dim + input.rank);
    if (IsKeyedByValue(i)) {
      const size_t at = key.size();
      key.resize(at + ValueWords(input), 0);
      if (input.bytes() != 0) std::memcpy(&key[at], input.data, input.bytes());
    }
  }
  return key;
}

Result<std::unique_ptr<const Plan>> PlannedOperator::BuildPlan(TensorViews inputs, StreamContext& stream) const {
  std::vector<Shape> outputs(output_count_);
  CUDAEP_RETURN_IF_ERROR(op_->InferShapes(inputs, outputs));
  for (const Shape& shape : outputs) {
    CUDAEP_RETURN_IF_ERROR(CheckedElementCount(shape).status());
  }
  CUDAEP_ASSIGN_OR_RETURN(PlanPtr plan, op_->MakePlan({inputs, outputs, stream, stream.device_info()}));
  plan->outputs = std::move(outputs);
  return std::unique_ptr<const Plan>(std::move(plan));
}

Result<const Plan*> PlannedOperator::PlanSlow(const Pin&, TensorViews inputs, StreamContext& stream) {
  std::lock_guard lock(mutex_);
  std::vector<int64_t> key = KeyOf(inputs);
  for (const auto& entry : entries_) {
    if (entry->key == key) {
      entry->last_use = ++clock_;
      slot_.store(entry.get());
      return entry->plan.get();
    }
  }
  auto entry = std::make_unique<Entry>();
  entry->key = std::move(key);
  CUDAEP_ASSIGN_OR_RETURN(entry->plan, BuildPlan(inputs, stream));
  entry->last_use = ++clock_;
  if (entries_.size() == kMaxPlans) {
    auto oldest = std::min_element(entries_.begin(), entries_.end(),
                                   [](const auto& a, const auto& b) { return a->last_use < b->last_use; });
    graveyard_.push_back(std::exchange(*oldest, std::move(entries_.back())));
    entries_.pop_back();
  }
  const Entry* fresh = entry.get();
  entries_.push_back(std::move(entry));
  slot_.store(fresh);
  // A thread that pins from now on can only find live entries; only our own pin is left, so nobody uses the others.
  if (pins_.load() == 1) graveyard_.clear();
  return fresh->plan.get();
}

Result<const Plan*> PlannedOperator::PlanSmaller(TensorViews inputs, StreamContext& stream, size_t workspace_bytes) {
  std::lock_guard lock(mutex_);
  auto entry = std::make_unique<Entry>();
  entry->key = KeyOf(inputs);
  {
    const Workspace::Ceiling scope(stream.workspace(), workspace_bytes);
    CUDAEP_ASSIGN_OR_RETURN(entry->plan, BuildPlan(inputs, stream));
  }
  entry->last_use = ++clock_;
  const Entry* fresh = entry.get();
  const auto same = std::find_if(entries_.begin(), entries_.end(), [&](const auto& e) { return e->key == fresh->key; });
  if (same == entries_.end()) {  // evicted meanwhile: this plan lives as long as an evicted one
    graveyard_.push_back(std::move(entry));
    return fresh->plan.get();
  }
  slot_.store(fresh);
  graveyard_.push_back(std::exchange(*same, std::move(entry)));
  return fresh->plan.get();
}

Status PlannedOperator::Enqueue(const Plan& plan, TensorViews inputs, void* const* outputs, StreamContext& stream) {
  bool empty = !plan.outputs.empty();
  for (const Shape& shape : plan.outputs) empty = empty && shape.elems() == 0;
  if (empty) return Status::Ok();
  Result<void*> workspace = stream.workspace().Reserve(plan.workspace_bytes);
  if (workspace.ok()) [[likely]]
    return op_->Enqueue(plan, OpContext{inputs, outputs, workspace.value(), stream});
  if (workspace.status().code() != StatusCode::kOutOfMemory) return std::move(workspace).status();

  for (const size_t limit : {plan.workspace_bytes / 4, size_t{0}}) {
    CUDAEP_ASSIGN_OR_RETURN(const Plan* const smaller, PlanSmaller(inputs, stream, limit));
    if (smaller->workspace_bytes >= plan.workspace_bytes) break;
    Result<void*> less = stream.workspace().Reserve(smaller->workspace_bytes);
    if (less.ok()) return op_->Enqueue(*smaller, OpContext{inputs, outputs, less.value(), stream});
  }
  return std::move(workspace).status();
}

size_t PlannedOperator::plan_count() const {
  std::lock_guard lock(mutex_);
  return entries_.size();
}

}  // namespace cudaep::ops
