#include "abi/host_kernel.h"

#include <alloca.h>

#include <unordered_map>

#include "abi/allocation_failure.h"
#include "abi/ep.h"
#include "abi/host_tensor.h"
#include "abi/thunk.h"
#include "core/log.h"
#include "memory/allocation_label.h"
#include "runtime/own_stream.h"
#include "runtime/profiler.h"

namespace cudaep::abi {

// What the host gives for the outputs of one call.
class HostKernel::Outputs final : public ops::OutputSource {
 public:
  Outputs(const HostKernel& kernel, OrtKernelContext* context) : kernel_(kernel), context_(context) {}

  Result<void*> Output(int index, Dims dims) override {
    if (kernel_.has_output_[static_cast<size_t>(index)] == 0) return nullptr;
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
  const HostKernel& kernel_;
  OrtKernelContext* const context_;
};

OrtStatus* ORT_API_CALL HostKernel::Create(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept {
  *kernel = nullptr;
  try {
    const OrtEp* ep = nullptr;
    if (OrtStatus* error = Host().ep->KernelInfo_GetEp(info, &ep)) return error;
    Ep& own = *const_cast<Ep*>(static_cast<const Ep*>(ep));
    own.allocators().Keep(info);
    std::unique_ptr<HostKernel> created(new HostKernel(own.state()));
    if (Status status = created->Init(info, *static_cast<const ops::KernelRow*>(state)); !status.ok()) {
      return ToOrt(status);
    }
    *kernel = created.release();
    return nullptr;
  } catch (...) {
    return StatusOfException();
  }
}

HostKernel::HostKernel(std::shared_ptr<SessionState> state) : OrtKernelImpl{}, state_(std::move(state)) {
  ort_version_supported = Host().version;
  Compute = Thunk<&HostKernel::OnCompute>();
  Release = Thunk<&HostKernel::OnRelease>();
  PrePackWeight = Thunk<&HostKernel::OnPrePackWeight>();
  if (state_->graph_runs() != nullptr) state_->graph_runs()->KernelMade();
}

HostKernel::~HostKernel() {
  if (state_->graph_runs() != nullptr) state_->graph_runs()->KernelGone();
}

Status HostKernel::Init(const OrtKernelInfo* host_info, const ops::KernelRow& row) {
  KernelInfo info(host_info, state_->settings());
  CUDAEP_RETURN_IF_ERROR(info.Read());
  CUDAEP_RETURN_IF_ERROR(operator_.Init(info, row));
  state_->Need(operator_.op().libraries());
  label_ = memory::InternLabel(StrCat(info.op_type(), " node '", info.name(), "'"));
  node_.name = memory::InternLabel(info.name());
  node_.op_type = memory::InternLabel(info.op_type());
  inputs_.resize(static_cast<size_t>(info.input_count()));
  for (int i = 0; i < info.input_count(); ++i) {
    FixedInput& input = inputs_[static_cast<size_t>(i)];
    input.on_host = row.IsHostInput(i);
    if (info.has_input(i)) CUDAEP_RETURN_IF_ERROR(FixInput(info.ConstantValue(i), &input));
  }
  for (int i = 0; i < info.output_count(); ++i) has_output_.push_back(info.has_output(i));
  return FindValuesInBothMemories(info);
}

Status HostKernel::FindValuesInBothMemories(const KernelInfo& info) {
  std::unordered_map<std::string, bool> on_host;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (!info.has_input(static_cast<int>(i))) continue;
    CUDAEP_ASSIGN_OR_RETURN(std::string name, info.InputName(i));
    const auto [seen, is_new] = on_host.emplace(std::move(name), inputs_[i].on_host);
    moves_inputs_ = moves_inputs_ || seen->second != inputs_[i].on_host;
  }
  return Status::Ok();
}

// One that does not lie where the kernel reads it is fixed as a copy, or looked at in each call.
Status HostKernel::FixInput(const OrtValue* constant, FixedInput* input) const {
  ops::TensorView view;
  CUDAEP_RETURN_IF_ERROR(ViewTensor(constant, &view));
  if (view.present() && view.elems() != 0 && !IsReadable(constant, input->on_host)) {
    if (!input->on_host) return Status::Ok();
    device::DeviceGuard guard(state_->ordinal());
    CUDAEP_RETURN_IF_ERROR(guard.status());
    CUDAEP_ASSIGN_OR_RETURN(input->memory, CopyToHost(view, nullptr));
    view.data = input->memory.get();
  }
  input->view = view;
  return Status::Ok();
}

Status HostKernel::OnPrePackWeight(const OrtValue* tensor, int index, OrtAllocator*, OrtSharedPrePackedWeightCache*,
                                   bool* packed) {
  *packed = false;
  device::DeviceGuard guard(state_->ordinal());
  CUDAEP_RETURN_IF_ERROR(guard.status());
  ops::TensorView weight;
  CUDAEP_RETURN_IF_ERROR(ViewTensor(tensor, &weight));
  // Of an outer graph, and in the other memory: each call brings it.
  if (!IsReadable(tensor, inputs_[static_cast<size_t>(index)].on_host)) return Status::Ok();
  CUDAEP_ASSIGN_OR_RETURN(const size_t bytes, operator_.op().PackedBytes(index, weight));
  if (bytes == 0) return Status::Ok();
  const Status status = Pack(index, weight, bytes).WithContext(label_);
  if (status.code() == StatusCode::kOutOfMemory) {
    Log(LogLevel::kWarning, "a weight is used as it is, since there is no memory to pack it: ", status.message());
    return Status::Ok();
  }
  if (status.code() == StatusCode::kNotSupported) return Status::Ok();  // the operator takes it as it is
  CUDAEP_RETURN_IF_ERROR(status);
  *packed = true;
  return Status::Ok();
}

// Waits for the device: the host may free the weight afterwards.
Status HostKernel::Pack(int index, const ops::TensorView& weight, size_t bytes) {
  const memory::LabelScope label(label_);
  const std::shared_ptr<memory::Allocator> weights = state_->memory()->weights();
  CUDAEP_ASSIGN_OR_RETURN(void* const pointer, weights->Reserve(bytes));
  const std::shared_ptr<void> memory(pointer, [weights](void* block) { weights->Free(block); });
  CUDAEP_RETURN_IF_ERROR(OnOwnStream(
      state_->memory(), [&](StreamContext& stream) { return operator_.op().Pack(index, weight, pointer, stream); }));
  FixedInput& input = inputs_[static_cast<size_t>(index)];
  input.dims = Shape(weight.dims());
  input.memory = memory;
  input.view = {.data = pointer, .dim = input.dims.data(), .rank = weight.rank, .type = weight.type, .packed = true};
  return Status::Ok();
}

Status HostKernel::OnCompute(OrtKernelContext* context) {
  if (!state_->several_devices()) [[likely]]
    return Run(context);
  device::DeviceGuard guard(state_->ordinal());
  CUDAEP_RETURN_IF_ERROR(guard.status());
  return Run(context);
}

Status HostKernel::ReadInputs(OrtKernelContext* context, ops::TensorView* views, MovedInputs* moved) const {
  const OrtApi& ort = *Host().ort;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    views[i] = inputs_[i].view;
    if (views[i].present()) continue;
    const OrtValue* value = nullptr;
    CUDAEP_RETURN_IF_ORT_ERROR(ort.KernelContext_GetInput(context, i, &value));
    CUDAEP_RETURN_IF_ERROR(ViewTensor(value, &views[i]));
    if (moves_inputs_ || state_->has_inner_graphs()) [[unlikely]]
      CUDAEP_RETURN_IF_ERROR(moved->Bring(value, inputs_[i].on_host, &views[i]));
    if (views[i].data == nullptr && views[i].present() && views[i].elems() != 0) [[unlikely]] {
      return OutOfMemory(label_, ": the host has no memory behind input ", i, " of shape ", views[i].dims());
    }
  }
  return Status::Ok();
}

Status HostKernel::Run(OrtKernelContext* context) {
  const memory::LabelScope label(label_);
  const profile::CallScope profiled(label_);
  ForgetAllocationFailure();
  auto* views = static_cast<ops::TensorView*>(alloca(sizeof(ops::TensorView) * inputs_.size()));
  auto** pointers = static_cast<void**>(alloca(sizeof(void*) * has_output_.size()));
  void* handle = nullptr;
  CUDAEP_RETURN_IF_ORT_ERROR(Host().ort->KernelContext_GetGPUComputeStream(context, &handle));
  CUDAEP_ASSIGN_OR_RETURN(StreamContext * stream, state_->ContextOfNode(static_cast<device::Stream>(handle)));
  SessionState::RunWorksOn(stream->stream());
  MovedInputs moved(*stream);
  CUDAEP_RETURN_IF_ERROR(ReadInputs(context, views, &moved));
  const ops::TensorViews inputs(views, inputs_.size());

  PlanPin pin(stream->plan_pins());
  Result<ops::PlannedCall> planned = operator_.PlanFor(pin, inputs, *stream);
  if (!planned.ok()) return Annotate(std::move(planned).status(), inputs);
  GraphRuns* const graphs = state_->graph_runs();
  if (graphs != nullptr) [[unlikely]] {
    if (Status taken = graphs->Take(planned.value()); !taken.ok()) return Annotate(std::move(taken), inputs);
  }
  Outputs source(*this, context);
  for (size_t i = 0; i < has_output_.size(); ++i) {
    pointers[i] = nullptr;
    const Shape& shape = planned.value().outputs[i];
    if (!ops::IsKnown(shape)) continue;
    Result<void*> output = source.Output(static_cast<int>(i), shape);
    if (!output.ok()) return Annotate(std::move(output).status(), inputs);
    pointers[i] = output.value();
  }
  ModelNode node;
  if (graphs != nullptr || profiled.is_on()) [[unlikely]]
    node = Described(planned.value(), inputs);  // of the plan, which Enqueue may replace
  Status status = operator_.Enqueue(pin, planned.value(), inputs, pointers, &source, *stream);
  if (!status.ok()) return Annotate(std::move(status), inputs);
  if (graphs != nullptr) [[unlikely]]
    graphs->NodeDone(node);
  if (profiled.is_on()) [[unlikely]]
    profile::DescribeCall(node.cost_bytes, node.cost_flops);
  return Status::Ok();
}

ModelNode HostKernel::Described(const ops::PlannedCall& call, ops::TensorViews inputs) const {
  ModelNode node = node_;
  node.cost_bytes = operator_.CostBytes(call, inputs);
  node.cost_flops = call.plan->cost_flops;
  return node;
}

// Which node, and what it was given.
Status HostKernel::Annotate(Status status, ops::TensorViews inputs) const {
  std::string text = label_;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].present()) continue;
    text += StrCat(i == 0 ? " on " : ", ", DataTypeName(inputs[i].type), inputs[i].dims());
  }
  return std::move(status).WithContext(text);
}

}  // namespace cudaep::abi
