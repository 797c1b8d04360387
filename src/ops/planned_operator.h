// An operator with its plans: the part of a node's execution that is the same for the host, a region and a test.
//
//   PlanPin pin(stream.plan_pins());
//   call = planned.PlanFor(pin, inputs, stream)      // a hit takes no lock and allocates nothing (ops/plan_cache.h)
//   ... the caller gets memory for call.outputs ...
//   planned.Enqueue(pin, call, inputs, outputs, source, stream)
//
// Threads: all methods may run concurrently, one call at a time on each stream.
#pragma once

#include <vector>

#include "ops/plan_cache.h"
#include "ops/registry.h"

namespace cudaep::ops {

// What one call runs with; valid while its pin lives and until the stream's next call.
struct PlannedCall {
  const Plan* plan = nullptr;
  std::span<const Shape> outputs;  // a dimension may be kUnknownDim: that output is asked for in Enqueue
  const PlanEntry* entry = nullptr;
};

inline bool IsKnown(Dims dims) {
  for (const int64_t dim : dims) {
    if (dim == kUnknownDim) return false;
  }
  return true;
}

class PlannedOperator {
 public:
  PlannedOperator() = default;
  PlannedOperator(const PlannedOperator&) = delete;
  PlannedOperator& operator=(const PlannedOperator&) = delete;

  // Creates the operator of `info` by `row`, or by the row that is found for it.
  Status Init(const OpInfo& info, const KernelRow& row);
  Status Init(const OpInfo& info);
  // Takes one that is made, whose host inputs none are: a compiled region.
  void Init(OperatorPtr op, std::vector<DataType> output_types);

  const Operator& op() const { return *op_; }

  // The plan and output shapes for these inputs, as many and of the types that `info` said. A shape that needs a new
  // plan is refused while the stream is captured (kFailedPrecondition): planning may ask the driver for memory.
  Result<PlannedCall> PlanFor(PlanPin& pin, TensorViews inputs, StreamContext& stream);

  // Reserves scratch memory and launches. Does nothing when every output is empty. Where there is no memory for the
  // plan's scratch, a plan that needs less takes its place, for kDetours calls. kFailedPrecondition for a plan that
  // cannot be captured on a stream that is. `source` may be null where all shapes are known.
  Status Enqueue(PlanPin& pin, const PlannedCall& call, TensorViews inputs, void* const* outputs, OutputSource* source,
                 StreamContext& stream);

  // What the call's plan states that it moves: inputs and outputs, unless the operator says otherwise.
  double CostBytes(const PlannedCall& call, TensorViews inputs) const;

  static constexpr uint32_t kDetours = 256;

  size_t plan_count() const { return plans_.size(); }
  int64_t slow_calls() const { return plans_.slow_calls(); }

 private:
  // Whether the operator has a key of its own.
  bool MakeKey(TensorViews inputs, PlanKey& key) const;
  Result<std::unique_ptr<const Plan>> BuildPlan(TensorViews inputs, bool own_key, StreamContext& stream) const;
  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const;
  Result<PlannedCall> CallOf(const PlanEntry& entry, TensorViews inputs, StreamContext& stream) const;
  Status EnqueueWithLess(PlanPin& pin, const PlannedCall& call, const OpContext& context, Status why);
  double BytesOf(TensorViews inputs, std::span<const Shape> outputs) const;
  bool IsKeyedByValue(size_t index) const {
    if (index < kMaskedInputs) return ((host_values_ >> index) & 1u) != 0;
    return index - kMaskedInputs < later_host_values_.size() && later_host_values_[index - kMaskedInputs];
  }

  static constexpr size_t kMaskedInputs = 64;

  OperatorPtr op_;
  size_t output_count_ = 0;
  std::vector<DataType> output_types_;
  uint64_t host_values_ = 0;             // host inputs whose values plans depend on, one bit each
  std::vector<bool> later_host_values_;  // of inputs beyond the bits
  PlanCache plans_;
};

}  // namespace cudaep::ops
