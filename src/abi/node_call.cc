#include "abi/node_call.h"

#include <alloca.h>

#include "abi/allocation_failure.h"
#include "abi/host_tensor.h"
#include "core/strings.h"
#include "memory/allocation_label.h"
#include "runtime/profiler.h"

namespace cudaep::abi {

// What the host gives for the outputs of one call.
class NodeCall::Outputs final : public ops::OutputSource {
 public:
  Outputs(const NodeCall& kernel, OrtKernelContext* context) : kernel_(kernel), context_(context) {}

  Result<void*> Output(int index, Dims dims) override {
    if (kernel_.has_output[static_cast<size_t>(index)] == 0) return nullptr;
    const OrtApi& ort = *Host().ort;
    OrtValue* value = nullptr;
    OrtStatus* const failure =
        ort.KernelContext_GetOutput(context_, static_cast<size_t>(index), dims.data(), dims.size(), &value);
    // The host's own text of a failed allocation does not say why.
    if (failure != nullptr) [[unlikely]]
      return TakeAllocationFailure(FromOrt(failure));
    if (value == nullptr) return nullptr;
    void* data = nullptr;
    CUDAEP_RETURN_IF_ORT_ERROR(ort.GetTensorMutableData(value, &data));
    if (data == nullptr && ElementCount(dims) != 0) {
      return TakeAllocationFailure(OutOfMemory("no memory for output ", index, " of shape ", dims));
    }
    return data;
  }

 private:
  const NodeCall& kernel_;
  OrtKernelContext* const context_;
};

NodeCall::NodeCall(std::shared_ptr<SessionState> session) : state(std::move(session)) {
  if (state->graph_runs() != nullptr) state->graph_runs()->KernelMade();
}

NodeCall::~NodeCall() {
  if (state->graph_runs() != nullptr) state->graph_runs()->KernelGone();
}

Status NodeCall::Run(OrtKernelContext* context) {
  if (!state->several_devices()) [[likely]]
    return RunHere(context);
  device::DeviceGuard guard(state->ordinal());
  CUDAEP_RETURN_IF_ERROR(guard.status());
  return RunHere(context);
}

Status NodeCall::ReadInputs(OrtKernelContext* context, ops::TensorView* views, MovedInputs* moved) const {
  const OrtApi& ort = *Host().ort;
  for (size_t i = 0; i < inputs.size(); ++i) {
    views[i] = inputs[i].view;
    if (views[i].present()) continue;
    const OrtValue* value = nullptr;
    CUDAEP_RETURN_IF_ORT_ERROR(ort.KernelContext_GetInput(context, i, &value));
    CUDAEP_RETURN_IF_ERROR(ViewTensor(value, &views[i]));
    if (moves_inputs || state->has_inner_graphs()) [[unlikely]]
      CUDAEP_RETURN_IF_ERROR(moved->Bring(value, inputs[i].on_host, &views[i]));
    if (views[i].data == nullptr && views[i].present() && views[i].elems() != 0) [[unlikely]] {
      return OutOfMemory(label, ": the host has no memory behind input ", i, " of shape ", views[i].dims());
    }
  }
  return Status::Ok();
}

Status NodeCall::RunHere(OrtKernelContext* context) {
  const memory::LabelScope scope(label);
  const profile::CallScope profiled(label);
  ForgetAllocationFailure();
  auto* views = static_cast<ops::TensorView*>(alloca(sizeof(ops::TensorView) * inputs.size()));
  auto** pointers = static_cast<void**>(alloca(sizeof(void*) * has_output.size()));
  void* handle = nullptr;
  CUDAEP_RETURN_IF_ORT_ERROR(Host().ort->KernelContext_GetGPUComputeStream(context, &handle));
  CUDAEP_ASSIGN_OR_RETURN(StreamContext * stream, state->ContextOfNode(static_cast<device::Stream>(handle)));
  SessionState::RunWorksOn(stream->stream());
  MovedInputs moved(*stream);
  CUDAEP_RETURN_IF_ERROR(ReadInputs(context, views, &moved));
  const ops::TensorViews given(views, inputs.size());

  PlanPin pin(stream->plan_pins());
  Result<ops::PlannedCall> found = planned.PlanFor(pin, given, *stream);
  if (!found.ok()) return Annotate(std::move(found).status(), given);
  GraphRuns* const graphs = state->graph_runs();
  if (graphs != nullptr) [[unlikely]] {
    if (Status taken = graphs->Take(found.value()); !taken.ok()) return Annotate(std::move(taken), given);
  }
  Outputs source(*this, context);
  for (size_t i = 0; i < has_output.size(); ++i) {
    pointers[i] = nullptr;
    const Shape& shape = found.value().outputs[i];
    if (!ops::IsKnown(shape)) continue;
    Result<void*> output = source.Output(static_cast<int>(i), shape);
    if (!output.ok()) return Annotate(std::move(output).status(), given);
    pointers[i] = output.value();
  }
  ModelNode told;
  if (graphs != nullptr || profiled.is_on()) [[unlikely]]
    told = Described(found.value(), given);  // of the plan, which Enqueue may replace
  Status status = planned.Enqueue(pin, found.value(), given, pointers, &source, *stream);
  if (!status.ok()) return Annotate(std::move(status), given);
  if (graphs != nullptr) [[unlikely]]
    graphs->NodeDone(told);
  if (profiled.is_on()) [[unlikely]]
    profile::DescribeCall(told.cost_bytes, told.cost_flops);
  return Status::Ok();
}

ModelNode NodeCall::Described(const ops::PlannedCall& call, ops::TensorViews views) const {
  ModelNode told = node;
  told.cost_bytes = planned.CostBytes(call, views);
  told.cost_flops = call.plan->cost_flops;
  return told;
}

// Which node, and what it was given.
Status NodeCall::Annotate(Status status, ops::TensorViews views) const {
  std::string text = label;
  for (size_t i = 0; i < views.size(); ++i) {
    if (!views[i].present()) continue;
    text += StrCat(i == 0 ? " on " : ", ", DataTypeName(views[i].type), views[i].dims());
  }
  return std::move(status).WithContext(text);
}

}  // namespace cudaep::abi
