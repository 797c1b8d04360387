#include "ops/planned_operator.h"

#include <algorithm>

namespace cudaep::ops {
namespace {

Result<bool> IsCaptured(const StreamContext& stream) {
  device::CaptureState capture = device::CaptureState::kNone;
  CUDAEP_RETURN_IF_ERROR(device::StreamCaptureState(stream.stream(), &capture));
  return capture != device::CaptureState::kNone;
}

Status RefuseWhileCaptured(const StreamContext& stream, const char* why) {
  CUDAEP_ASSIGN_OR_RETURN(const bool captured, IsCaptured(stream));
  if (!captured) return Status::Ok();
  return FailedPrecondition("the stream is being captured into a CUDA graph, and ", why);
}

// Ends the key of a plan that was made where there was no memory for another one's scratch.
constexpr int64_t kLessScratch = -0x6c657373;

}  // namespace

Status PlannedOperator::Init(const OpInfo& info) {
  const KernelRow* const row = FindRow(info.domain(), info.op_type(), info.since_version());
  return row == nullptr ? MissingRow(info) : Init(info, *row);
}

Status PlannedOperator::Init(const OpInfo& info, const KernelRow& row) {
  CUDAEP_ASSIGN_OR_RETURN(op_, MakeOperator(info, row));
  output_count_ = static_cast<size_t>(info.output_count());
  for (int i = 0; i < info.output_count(); ++i) {
    output_types_.push_back(info.output_kind(i) == ValueKind::kTensor ? info.output_type(i) : DataType::kUndefined);
  }
  for (int index = 0; index < info.input_count(); ++index) {
    if (!row.IsHostInput(index) || !op_->PlanReadsHostInput(index)) continue;
    if (static_cast<size_t>(index) < kMaskedInputs) {
      host_values_ |= uint64_t{1} << index;
    } else {
      later_host_values_.resize(static_cast<size_t>(info.input_count()) - kMaskedInputs);
      later_host_values_[static_cast<size_t>(index) - kMaskedInputs] = true;
    }
  }
  return Status::Ok();
}

void PlannedOperator::Init(OperatorPtr op, std::vector<DataType> output_types) {
  op_ = std::move(op);
  output_count_ = output_types.size();
  output_types_ = std::move(output_types);
}

// An output whose shape is open counts nothing, and so does one that nobody uses.
double PlannedOperator::BytesOf(TensorViews inputs, std::span<const Shape> outputs) const {
  double bytes = 0;
  for (const TensorView& input : inputs) bytes += input.present() ? static_cast<double>(input.bytes()) : 0;
  for (size_t i = 0; i < outputs.size() && i < output_types_.size(); ++i) {
    if (output_types_[i] == DataType::kUndefined || !IsKnown(outputs[i])) continue;
    bytes += static_cast<double>(StorageBytes(output_types_[i], outputs[i].elems()));
  }
  return bytes;
}

// A plan that serves several shapes was made for the first of them.
double PlannedOperator::CostBytes(const PlannedCall& call, TensorViews inputs) const {
  return call.plan->outputs.size() == output_count_ ? call.plan->cost_bytes : BytesOf(inputs, call.outputs);
}

bool PlannedOperator::MakeKey(TensorViews inputs, PlanKey& key) const {
  if (op_->MakePlanKey(inputs, key)) return true;
  for (size_t i = 0; i < inputs.size(); ++i) {
    key.AddDims(inputs[i]);
    if ((host_values_ != 0 || !later_host_values_.empty()) && IsKeyedByValue(i)) key.AddValue(inputs[i]);
  }
  return false;
}

Status PlannedOperator::InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const {
  outputs.resize(output_count_);
  CUDAEP_RETURN_IF_ERROR(op_->InferShapes(inputs, outputs));
  for (const Shape& shape : outputs) {
    if (IsKnown(shape)) CUDAEP_RETURN_IF_ERROR(CheckedElementCount(shape).status());
  }
  return Status::Ok();
}

Result<std::unique_ptr<const Plan>> PlannedOperator::BuildPlan(TensorViews inputs, bool own_key,
                                                               StreamContext& stream) const {
  std::vector<Shape> outputs;
  CUDAEP_RETURN_IF_ERROR(InferShapes(inputs, outputs));
  CUDAEP_ASSIGN_OR_RETURN(PlanPtr plan, op_->MakePlan({inputs, outputs, stream, stream.device_info()}));
  if (plan->synchronizes) plan->capturable = false;
  if (plan->cost_bytes == 0) plan->cost_bytes = BytesOf(inputs, outputs);
  if (!own_key) plan->outputs = std::move(outputs);
  return std::unique_ptr<const Plan>(std::move(plan));
}

// A plan of one set of shapes has them; one that serves several gets them inferred.
Result<PlannedCall> PlannedOperator::CallOf(const PlanEntry& entry, TensorViews inputs, StreamContext& stream) const {
  const Plan& plan = *entry.plan;
  if (plan.outputs.size() == output_count_) return PlannedCall{&plan, plan.outputs, &entry};
  std::vector<Shape>& shapes = stream.shapes();
  CUDAEP_RETURN_IF_ERROR(InferShapes(inputs, shapes));
  return PlannedCall{&plan, shapes, &entry};
}

Result<PlannedCall> PlannedOperator::PlanFor(PlanPin& pin, TensorViews inputs, StreamContext& stream) {
  PlanKey key;
  const bool own_key = MakeKey(inputs, key);
  const uint64_t hash = key.Hash();
  const PlanEntry* entry = plans_.Find(pin, key, hash);
  if (entry == nullptr) [[unlikely]] {
    CUDAEP_RETURN_IF_ERROR(
        RefuseWhileCaptured(stream, "these shapes are new to the node; run them once before the capture"));
    CUDAEP_ASSIGN_OR_RETURN(entry,
                            plans_.FindOrBuild(pin, key, hash, [&] { return BuildPlan(inputs, own_key, stream); }));
  }
  if (const uint32_t left = entry->detours.load(std::memory_order_relaxed); left != 0) [[unlikely]] {
    CUDAEP_ASSIGN_OR_RETURN(const bool captured, IsCaptured(stream));
    // Threads may count one for two. A capture must not be what tries for more memory next.
    if (!captured) entry->detours.store(left - 1, std::memory_order_relaxed);
    PlanKey less;
    MakeKey(inputs, less);
    less.Add(kLessScratch);
    if (const PlanEntry* const other = plans_.Find(pin, less, less.Hash())) return CallOf(*other, inputs, stream);
    // The pin may have left the first one meanwhile.
    CUDAEP_ASSIGN_OR_RETURN(entry,
                            plans_.FindOrBuild(pin, key, hash, [&] { return BuildPlan(inputs, own_key, stream); }));
  }
  return CallOf(*entry, inputs, stream);
}

Status PlannedOperator::Enqueue(PlanPin& pin, const PlannedCall& call, TensorViews inputs, void* const* outputs,
                                OutputSource* source, StreamContext& stream) {
  bool empty = !call.outputs.empty();
  for (const Shape& shape : call.outputs) empty = empty && shape.elems() == 0 && IsKnown(shape);
  if (empty) return Status::Ok();
  if (!call.plan->capturable) [[unlikely]] {
    CUDAEP_RETURN_IF_ERROR(RefuseWhileCaptured(stream, "the operator's work on these inputs cannot be captured"));
  }
  OpContext context{inputs, outputs, nullptr, stream, call.outputs, source};
  const Workspace::Use use(stream.workspace(), call.plan->workspace_bytes);
  Result<void*> workspace = stream.workspace().Reserve(call.plan->workspace_bytes);
  if (workspace.ok()) [[likely]] {
    context.workspace = workspace.value();
    return op_->Enqueue(*call.plan, context);
  }
  if (workspace.status().code() != StatusCode::kOutOfMemory) return std::move(workspace).status();
  return EnqueueWithLess(pin, call, context, std::move(workspace).status());
}

// With a plan for the same inputs that needs at most a quarter of the scratch memory, or what the stream has already.
// It is kept beside the first one, which is tried again later.
Status PlannedOperator::EnqueueWithLess(PlanPin& pin, const PlannedCall& call, const OpContext& first, Status why) {
  const size_t wanted = call.plan->workspace_bytes;
  OpContext context = first;
  StreamContext& stream = context.runtime;
  PlanKey key;
  const bool own_key = MakeKey(context.inputs, key);
  key.Add(kLessScratch);
  const PlanEntry* first_entry = call.entry;  // until the pin leaves it
  for (const size_t limit : {wanted / 4, size_t{0}}) {
    Result<std::unique_ptr<const Plan>> built = [&] {
      const Workspace::Ceiling scope(stream.workspace(), limit);
      return BuildPlan(context.inputs, own_key, stream);
    }();
    if (!built.ok()) return why;
    if (built.value()->workspace_bytes >= wanted) break;
    if (first_entry != nullptr) first_entry->detours.store(kDetours, std::memory_order_relaxed);
    first_entry = nullptr;
    const PlanEntry& entry = *plans_.Replace(pin, key, key.Hash(), std::move(built).value());
    const Plan& smaller = *entry.plan;
    CUDAEP_ASSIGN_OR_RETURN(const PlannedCall less, CallOf(entry, context.inputs, stream));
    Result<void*> workspace = stream.workspace().Reserve(smaller.workspace_bytes);
    if (!workspace.ok()) continue;
    context.workspace = workspace.value();
    context.shapes = less.outputs;
    return op_->Enqueue(smaller, context);
  }
  return why;
}

}  // namespace cudaep::ops
