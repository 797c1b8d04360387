// The operator contract: create, infer shapes, plan, enqueue.
//
// The host's kernel call, a compiled region and a unit test run an operator through the same four steps:
//   1. a factory (ops/registry.h) reads attributes once and refuses what is wrong or not offered; it never touches
//      weights, which Pack does where the caller knows one;
//   2. InferShapes gives the output shapes; the only shape inference there is;
//   3. MakePlan turns shapes into an immutable plan: algorithm, launch sizes, scratch bytes;
//   4. Enqueue launches. It does not allocate, lock, look anything up or wait, but for plans that say so.
// Steps 2 and 3 run once for each new plan key (input shapes and values of host inputs, unless the operator has a key
// of its own); the caller keeps the plan.
//
// Threads: an operator is immutable after creation; all methods are const and may run on many threads at once.
#pragma once

#include <memory>
#include <vector>

#include "core/checked_math.h"
#include "core/status.h"
#include "device/device.h"
#include "device/device_info.h"
#include "ops/op_info.h"
#include "ops/plan_key.h"
#include "ops/tensor_view.h"
#include "runtime/stream_context.h"

namespace cudaep::ops {

// An output whose elements lie together in an input's buffer, so many bytes from its start on.
struct PartOfInput {
  int input = 0, output = 0;
  size_t offset_bytes = 0;
};

// Base of every plan. An operator without choices uses it as it is.
class Plan {
 public:
  virtual ~Plan() = default;

  // A part of the scratch memory, aligned to 256 bytes: its offset, for OpContext::scratch. Parts that are never needed
  // together may share one.
  size_t AddScratch(size_t bytes) {
    const size_t offset = AlignUp(workspace_bytes, kScratchAlignment);
    workspace_bytes = offset + bytes;
    return offset;
  }

  size_t workspace_bytes = 0;
  // Enqueue waits for the device (OpContext::ReadBack). Such work cannot be captured into a CUDA graph.
  bool synchronizes = false;
  // What is launched replays correctly from a CUDA graph with other values in the same buffers.
  bool capturable = true;
  // Enqueue queues the same work for the same call at any time. False: it may find a faster way later (a library's plan
  // that is made meanwhile: PlanStore::replacements), which replays of a graph would not.
  bool settled = true;
  // Estimates of one call for choices and budgets. Bytes are those of inputs and outputs unless MakePlan says
  // otherwise.
  double cost_bytes = 0, cost_flops = 0;
  // Filled by the caller from InferShapes; empty for a plan that serves several shapes (PlanKey).
  std::vector<Shape> outputs;
  // The caller may give such an output its place in the input, as with KernelRow::aliases, if nobody writes there
  // before it is read: Enqueue leaves it alone then (OpContext::LiesIn), and copies where the caller does not.
  std::vector<PartOfInput> parts;

 private:
  static constexpr size_t kScratchAlignment = 256;
};
using PlanPtr = std::unique_ptr<Plan>;

// What MakePlan gets. Device pointers in `inputs` are not valid yet; host inputs are.
struct PlanContext {
  TensorViews inputs;
  std::span<const Shape> outputs;
  StreamContext& runtime;  // of the stream that will run the plan: scratch limits, library handles
  const device::DeviceInfo& device;
};

// Where the outputs of a call come from: the host, a region's memory, a test.
class OutputSource {
 public:
  virtual ~OutputSource() = default;
  // Memory of output `index` in the given shape; null for an output that nobody uses, or for an empty one.
  virtual Result<void*> Output(int index, Dims dims) = 0;
};

// What Enqueue gets. Lives on the caller's stack.
struct OpContext {
  TensorViews inputs;
  void* const* outputs;  // null for an optional output that nobody uses, for an empty one, for one of unknown shape
  void* workspace;       // the plan's bytes, 256-byte aligned
  StreamContext& runtime;
  std::span<const Shape> shapes = {};  // of the outputs
  OutputSource* source = nullptr;

  device::Stream stream() const { return runtime.stream(); }
  template <class T = void>
  const T* input(int index) const {
    return static_cast<const T*>(inputs[static_cast<size_t>(index)].data);
  }
  template <class T = void>
  T* output(int index) const {
    return static_cast<T*>(outputs[index]);
  }
  // A part of the workspace that the plan made with AddScratch.
  template <class T = void>
  T* scratch(size_t offset) const {
    return reinterpret_cast<T*>(static_cast<std::byte*>(workspace) + offset);
  }
  // Whether an output lies in the buffer of an input (KernelRow::in_place, or the caller's own binding).
  bool Shares(int input_index, int output_index) const {
    return outputs[output_index] != nullptr && outputs[output_index] == input(input_index);
  }
  // Whether an output is where it lies in an input.
  bool LiesIn(const PartOfInput& part) const {
    return outputs[part.output] != nullptr && outputs[part.output] == input<std::byte>(part.input) + part.offset_bytes;
  }

  // An output whose shape InferShapes left open (kUnknownDim), once it is known. At most once for each.
  Result<void*> Output(int index, Dims dims) const { return source->Output(index, dims); }
  // Copies from the device to `destination` and waits for the stream, so everything queued before is done. Only for
  // plans that synchronize.
  Status ReadBack(const void* device_source, size_t bytes, void* destination) const {
    return runtime.ReadBack(device_source, bytes, destination);
  }
};

class Operator {
 public:
  virtual ~Operator() = default;

  // One shape for every output of the node, also for those nobody uses. A dimension that depends on device data is
  // kUnknownDim; the operator then asks for that output in Enqueue.
  virtual Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const = 0;

  virtual Result<PlanPtr> MakePlan(const PlanContext&) const { return std::make_unique<Plan>(); }

  // Whether shapes or plan depend on the value of this host input. False for data that merely passes through, so that
  // a new value does not make a new plan.
  virtual bool PlanReadsHostInput(int /*index*/) const { return true; }

  // A key of the operator's own, for plans that serve several shapes: adds to `key` and returns true. Its plans have no
  // `outputs`; the shapes are inferred at each call and found in OpContext::shapes. False: dimensions of all inputs and
  // values of host inputs.
  virtual bool MakePlanKey(TensorViews /*inputs*/, PlanKey& /*key*/) const { return false; }

  // Bytes of the form in which the operator wants a constant weight, 0 to take it as it is. `weight` has dimensions and
  // type. The caller packs at most once, into memory of its own, and gives the packed form in place of the input from
  // then on (TensorView::packed). It need not: a weight may be no constant, or packing switched off.
  virtual Result<size_t> PackedBytes(int /*index*/, const TensorView& /*weight*/) const { return size_t{0}; }
  // Launches the packing of `weight` into `packed`, on the stream. kNotSupported: it is taken as it is after all.
  virtual Status Pack(int /*index*/, const TensorView& /*weight*/, void* /*packed*/, StreamContext&) const {
    return Internal("the operator packs nothing");
  }

  // Libraries that Enqueue may call: their handles are taken when a stream is made.
  virtual LibrarySet libraries() const { return {}; }

  virtual Status Enqueue(const Plan& plan, const OpContext& context) const = 0;
};
using OperatorPtr = std::unique_ptr<Operator>;

// The concrete plan of an operator that made it.
template <class T>
const T& PlanAs(const Plan& plan) {
  return static_cast<const T&>(plan);
}

}  // namespace cudaep::ops
