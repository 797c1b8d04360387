#include "abi/host_kernel.h"

#include <unordered_map>

#include "abi/ep.h"
#include "abi/host_tensor.h"
#include "abi/thunk.h"
#include "memory/allocation_label.h"
#include "ops/packed_weight.h"
#include "runtime/own_stream.h"

namespace cudaep::abi {

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

HostKernel::HostKernel(std::shared_ptr<SessionState> state) : OrtKernelImpl{}, call_(std::move(state)) {
  ort_version_supported = Host().version;
  Compute = Thunk<&HostKernel::OnCompute>();
  Release = Thunk<&HostKernel::OnRelease>();
  PrePackWeight = Thunk<&HostKernel::OnPrePackWeight>();
}

Status HostKernel::Init(const OrtKernelInfo* host_info, const ops::KernelRow& row) {
  KernelInfo info(host_info, *call_.state);
  CUDAEP_RETURN_IF_ERROR(info.Read());
  CUDAEP_RETURN_IF_ERROR(call_.planned.Init(info, row));
  CUDAEP_RETURN_IF_ERROR(call_.state->Need(call_.planned.op().libraries()).WithContext(info.Label()));
  call_.label = memory::InternLabel(info.Label());
  call_.node.name = memory::InternLabel(info.name());
  call_.node.op_type = memory::InternLabel(info.op_type());
  call_.inputs.resize(static_cast<size_t>(info.input_count()));
  for (int i = 0; i < info.input_count(); ++i) {
    NodeCall::FixedInput& input = call_.inputs[static_cast<size_t>(i)];
    input.on_host = row.IsHostInput(i);
    if (info.has_input(i)) CUDAEP_RETURN_IF_ERROR(FixInput(info.ConstantValue(i), &input));
  }
  for (int i = 0; i < info.output_count(); ++i) call_.has_output.push_back(info.has_output(i));
  return FindValuesInBothMemories(info);
}

Status HostKernel::FindValuesInBothMemories(const KernelInfo& info) {
  std::unordered_map<std::string, bool> on_host;
  for (size_t i = 0; i < call_.inputs.size(); ++i) {
    if (!info.has_input(static_cast<int>(i))) continue;
    CUDAEP_ASSIGN_OR_RETURN(std::string name, info.InputName(i));
    const auto [seen, is_new] = on_host.emplace(std::move(name), call_.inputs[i].on_host);
    call_.moves_inputs = call_.moves_inputs || seen->second != call_.inputs[i].on_host;
  }
  return Status::Ok();
}

// One that does not lie where the kernel reads it is fixed as a copy, or looked at in each call.
Status HostKernel::FixInput(const OrtValue* constant, NodeCall::FixedInput* input) const {
  ops::TensorView view;
  CUDAEP_RETURN_IF_ERROR(ViewTensor(constant, &view));
  if (view.present() && view.elems() != 0 && !IsReadable(constant, input->on_host)) {
    if (!input->on_host) return Status::Ok();
    device::DeviceGuard guard(call_.state->ordinal());
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
  device::DeviceGuard guard(call_.state->ordinal());
  CUDAEP_RETURN_IF_ERROR(guard.status());
  ops::TensorView weight;
  CUDAEP_RETURN_IF_ERROR(ViewTensor(tensor, &weight));
  // Of an outer graph, and in the other memory: each call brings it.
  if (!IsReadable(tensor, call_.inputs[static_cast<size_t>(index)].on_host)) return Status::Ok();
  CUDAEP_ASSIGN_OR_RETURN(const size_t bytes, call_.planned.op().PackedBytes(index, weight));
  if (bytes == 0) return Status::Ok();
  std::shared_ptr<void> memory;
  // Waits for the device: the host may free the weight afterwards.
  CUDAEP_RETURN_IF_ERROR(OnOwnStream(call_.state->memory(), [&](StreamContext& stream) -> Status {
    CUDAEP_ASSIGN_OR_RETURN(memory, ops::PackWeight(call_.planned.op(), index, weight, bytes, call_.label, stream));
    return Status::Ok();
  }));
  if (memory == nullptr) return Status::Ok();
  NodeCall::FixedInput& input = call_.inputs[static_cast<size_t>(index)];
  input.dims = Shape(weight.dims());
  input.memory = memory;
  input.view = {
      .data = memory.get(), .dim = input.dims.data(), .rank = weight.rank, .type = weight.type, .packed = true};
  *packed = true;
  return Status::Ok();
}

}  // namespace cudaep::abi
