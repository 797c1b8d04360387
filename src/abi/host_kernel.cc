#include "abi/host_kernel.h"

#include <alloca.h>

#include <optional>

#include "abi/allocation_failure.h"
#include "abi/ep.h"
#include "abi/host_tensor.h"
#include "abi/kernel_info.h"
#include "abi/thunk.h"
#include "memory/allocation_label.h"

namespace cudaep::abi {

OrtStatus* ORT_API_CALL HostKernel::Create(void*, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept {
  *kernel = nullptr;
  try {
    const OrtEp* ep = nullptr;
    if (OrtStatus* error = Host().ep->KernelInfo_GetEp(info, &ep)) return error;
    Ep& own = *const_cast<Ep*>(static_cast<const Ep*>(ep));
    own.allocators().Keep(info);
    std::unique_ptr<HostKernel> created(new HostKernel(own.state()));
    if (Status status = created->Init(info); !status.ok()) return ToOrt(status);
    *kernel = created.release();
    return nullptr;
  } catch (...) {
    return ToOrt(OutOfMemory("host memory is exhausted"));
  }
}

HostKernel::HostKernel(std::shared_ptr<SessionState> state) : OrtKernelImpl{}, state_(std::move(state)) {
  ort_version_supported = Host().version;
  Compute = Thunk<&HostKernel::OnCompute>();
  Release = Thunk<&HostKernel::OnRelease>();
}

Status HostKernel::Init(const OrtKernelInfo* host_info) {
  KernelInfo info(host_info, state_->settings());
  CUDAEP_RETURN_IF_ERROR(info.Read());
  CUDAEP_RETURN_IF_ERROR(operator_.Init(info));
  label_ = memory::InternLabel(StrCat(info.op_type(), " node '", info.name(), "'"));
  input_count_ = static_cast<size_t>(info.input_count());
  output_count_ = static_cast<size_t>(info.output_count());
  for (size_t i = 0; i < output_count_; ++i) has_output_.push_back(info.has_output(static_cast<int>(i)));
  return Status::Ok();
}

Status HostKernel::OnCompute(OrtKernelContext* context) {
  if (!state_->several_devices()) [[likely]]
    return Run(context);
  device::DeviceGuard guard(state_->ordinal());
  CUDAEP_RETURN_IF_ERROR(guard.status());
  return Run(context);
}

Status HostKernel::Run(OrtKernelContext* context) {
  const OrtApi& ort = *Host().ort;
  const memory::LabelScope label(label_);
  ForgetAllocationFailure();
  auto* views = static_cast<ops::TensorView*>(alloca(sizeof(ops::TensorView) * input_count_));
  auto** outputs = static_cast<void**>(alloca(sizeof(void*) * output_count_));
  for (size_t i = 0; i < input_count_; ++i) {
    const OrtValue* value = nullptr;
    CUDAEP_RETURN_IF_ORT_ERROR(ort.KernelContext_GetInput(context, i, &value));
    views[i] = {};
    CUDAEP_RETURN_IF_ERROR(ViewTensor(value, &views[i]));
  }
  const ops::TensorViews inputs(views, input_count_);

  void* handle = nullptr;
  CUDAEP_RETURN_IF_ORT_ERROR(ort.KernelContext_GetGPUComputeStream(context, &handle));
  CUDAEP_ASSIGN_OR_RETURN(StreamContext * stream, state_->ContextOf(static_cast<device::Stream>(handle)));

  const ops::PlannedOperator::Pin pin(operator_);
  Result<const ops::Plan*> planned = operator_.PlanFor(pin, inputs, *stream);
  if (!planned.ok()) return Annotate(std::move(planned).status(), inputs);
  const ops::Plan& plan = *planned.value();

  for (size_t i = 0; i < output_count_; ++i) {
    outputs[i] = nullptr;
    if (has_output_[i] == 0) continue;
    const Shape& shape = plan.outputs[i];
    OrtValue* value = nullptr;
    OrtStatus* const failure =
        ort.KernelContext_GetOutput(context, i, shape.data(), static_cast<size_t>(shape.rank()), &value);
    // The host's own text of a failed allocation does not say why.
    if (failure != nullptr) [[unlikely]]
      return Annotate(TakeAllocationFailure(FromOrt(failure)), inputs);
    if (value == nullptr) continue;
    CUDAEP_RETURN_IF_ORT_ERROR(ort.GetTensorMutableData(value, &outputs[i]));
    if (outputs[i] == nullptr && shape.elems() != 0) {
      return Annotate(TakeAllocationFailure(OutOfMemory("no memory for output ", i, " of shape ", shape.dims())),
                      inputs);
    }
  }
  Status status = operator_.Enqueue(plan, inputs, outputs, *stream);
  return status.ok() ? Status::Ok() : Annotate(std::move(status), inputs);
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
