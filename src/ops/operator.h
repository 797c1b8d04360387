// The operator contract: create, infer shapes, plan, enqueue.
//
// The host's kernel call, a compiled region and a unit test run an operator through the same four steps:
//   1. a factory (ops/registry.h) reads attributes once and refuses what is wrong or not offered;
//   2. InferShapes gives the output shapes; the only shape inference there is;
//   3. Plan turns shapes into an immutable plan: algorithm, launch sizes, scratch bytes;
//   4. Enqueue launches. It does not allocate, lock, look anything up or wait.
// Steps 2 and 3 run once for each new set of input shapes (and values of host inputs); the caller keeps the plan.
//
// Threads: an operator is immutable after creation; all methods are const and may run on many threads at once.
#pragma once

#include <memory>
#include <vector>

#include "core/status.h"
#include "device/device.h"
#include "ops/op_info.h"
#include "ops/tensor_view.h"
#include "runtime/stream_context.h"

namespace cudaep::ops {

// Base of every plan. An operator without choices uses it as it is.
class Plan {
 public:
  virtual ~Plan() = default;
  size_t workspace_bytes = 0;
  std::vector<Shape> outputs;  // filled by the caller from InferShapes
};
using PlanPtr = std::unique_ptr<Plan>;

// What Plan gets. Device pointers in `inputs` are not valid yet; host inputs are.
struct PlanContext {
  TensorViews inputs;
  std::span<const Shape> outputs;
  StreamContext& runtime;  // of the stream that will run the plan: scratch limits, library handles
  const device::DeviceInfo& device;
};

// What Enqueue gets. Lives on the caller's stack.
struct OpContext {
  TensorViews inputs;
  void* const* outputs;  // null for an optional output that nobody uses, or for an empty one
  void* workspace;       // the plan's bytes, 256-byte aligned
  StreamContext& runtime;

  device::Stream stream() const { return runtime.stream(); }
  template <class T = void>
  const T* input(int index) const {
    return static_cast<const T*>(inputs[static_cast<size_t>(index)].data);
  }
  template <class T = void>
  T* output(int index) const {
    return static_cast<T*>(outputs[index]);
  }
};

class Operator {
 public:
  virtual ~Operator() = default;

  // One shape for every output of the node, also for those nobody uses.
  virtual Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const = 0;

  virtual Result<PlanPtr> MakePlan(const PlanContext&) const { return std::make_unique<Plan>(); }

  // Whether shapes or plan depend on the value of this host input. False for data that merely passes through, so that
  // a new value does not make a new plan.
  virtual bool PlanReadsHostInput(int /*index*/) const { return true; }

  virtual Status Enqueue(const Plan& plan, const OpContext& context) const = 0;
};
using OperatorPtr = std::unique_ptr<Operator>;

// The concrete plan of an operator that made it.
template <class T>
const T& PlanAs(const Plan& plan) {
  return static_cast<const T&>(plan);
}

}  // namespace cudaep::ops
