#include "abi/control_flow.h"

#include <array>

#include "abi/allocation_failure.h"
#include "abi/ep.h"
#include "abi/host_tensor.h"
#include "abi/kernel_info.h"
#include "abi/thunk.h"
#include "core/strings.h"
#include "kernels/movement/segments.h"
#include "kernels/movement/transpose.h"

namespace cudaep::abi {
namespace {

// What both helpers know: the node, for messages, and its device.
class Helper {
 protected:
  Helper(const Ep& ep, std::string label) : state_(ep.state()), label_(std::move(label)) {}

  // `work` on the session's device; a failure names the node.
  template <class Work>
  Status OnDevice(Work&& work) const {
    device::DeviceGuard guard(state_->ordinal());
    Status status = guard.status().ok() ? work() : guard.status();
    return status.ok() ? Status::Ok() : std::move(status).WithContext(label_);
  }

 private:
  const std::shared_ptr<SessionState> state_;
  const std::string label_;  // "Loop node 'x'"
};

// Views a value that the host has allocated. Hosts differ in whether they look at what an allocator returned.
Status ViewAllocated(const OrtValue* value, ops::TensorView* view) {
  CUDAEP_RETURN_IF_ERROR(ViewTensor(value, view));
  if (view->data != nullptr || view->bytes() == 0) return Status::Ok();
  return TakeAllocationFailure(OutOfMemory("no memory for a value of shape ", view->dims()));
}

class LoopHelper : public OrtLoopKernelHelper, Helper {
 public:
  LoopHelper(const Ep& ep, std::string label) : OrtLoopKernelHelper{}, Helper(ep, std::move(label)) {
    ort_version_supported = Host().version;
    Release = Thunk<&LoopHelper::OnRelease>();
    ConcatOutput = Thunk<&LoopHelper::OnConcatOutput>();
  }

 private:
  void OnRelease() { delete this; }

  Status OnConcatOutput(void* stream, const OrtValue* const* values, size_t count, void* output, size_t bytes) {
    return OnDevice([&] { return Join({values, count}, output, bytes, static_cast<device::Stream>(stream)); });
  }

  static Status Join(std::span<const OrtValue* const> values, void* output, size_t bytes, device::Stream stream) {
    if (bytes != 0 && output == nullptr) {
      return TakeAllocationFailure(OutOfMemory("no memory for ", bytes, " bytes of a scan output"));
    }
    const kernels::SegmentRows whole{.rows = 1, .whole_bytes = static_cast<int64_t>(bytes)};
    std::array<kernels::Segment, kernels::kMaxSegments> group;
    ops::TensorView first;
    int64_t offset = 0;
    for (size_t begin = 0; begin < values.size(); begin += group.size()) {
      const size_t size = std::min(group.size(), values.size() - begin);
      for (size_t i = 0; i < size; ++i) {
        ops::TensorView value;
        CUDAEP_RETURN_IF_ERROR(ViewAllocated(values[begin + i], &value));
        if (begin + i == 0) first = value;
        if (!SameDims(value.dims(), first.dims())) {
          return InvalidArgument("a scan output has shape ", value.dims(), " in iteration ", begin + i, " and ",
                                 first.dims(), " in the first one");
        }
        const auto value_bytes = static_cast<int64_t>(value.bytes());
        group[i] = {const_cast<void*>(value.data), value_bytes, offset};
        offset += value_bytes;
      }
      if (offset > whole.whole_bytes) break;
      CUDAEP_RETURN_IF_ERROR(kernels::LaunchJoin(whole, std::span(group).first(size), output, stream));
    }
    if (offset == whole.whole_bytes) return Status::Ok();
    return Internal("the host gives ", bytes, " bytes for a scan output of at least ", offset);
  }
};

class ScanHelper : public OrtScanKernelHelper, Helper {
 public:
  ScanHelper(const Ep& ep, std::string label) : OrtScanKernelHelper{}, Helper(ep, std::move(label)) {
    ort_version_supported = Host().version;
    Release = Thunk<&ScanHelper::OnRelease>();
    Transpose = Thunk<&ScanHelper::OnTranspose>();
  }

 private:
  void OnRelease() { delete this; }

  Status OnTranspose(const size_t* permutation, size_t count, const OrtValue* input, OrtSyncStream* stream,
                     OrtValue* output) {
    void* const handle = stream != nullptr ? Host().ort->SyncStream_GetHandle(stream) : nullptr;
    return OnDevice([&] { return Permute({permutation, count}, input, output, static_cast<device::Stream>(handle)); });
  }

  static Status Permute(std::span<const size_t> permutation, const OrtValue* input, const OrtValue* output,
                        device::Stream stream) {
    ops::TensorView in, out;
    CUDAEP_RETURN_IF_ERROR(ViewAllocated(input, &in));
    CUDAEP_RETURN_IF_ERROR(ViewAllocated(output, &out));
    const std::vector<int64_t> axes(permutation.begin(), permutation.end());
    CUDAEP_ASSIGN_OR_RETURN(const kernels::TransposePlan plan,
                            kernels::PlanTranspose(in.dims(), axes, SizeOf(in.type)));
    return kernels::LaunchTranspose(plan, in.data, const_cast<void*>(out.data), stream);
  }
};

// The host's kernel of a node around a helper of type H, which the host owns once it has made the kernel.
template <class H, class Slot>
OrtStatus* WithHelper(const OrtKernelInfo* info, Slot make, OrtKernelImpl** kernel, const Ep& ep) {
  KernelInfo node(info, *ep.state());
  if (Status status = node.Read(); !status.ok()) return ToOrt(status);
  auto helper = std::make_unique<H>(ep, StrCat(node.op_type(), " node '", node.name(), "'"));
  OrtStatus* const failure = make(info, helper.get(), kernel);
  if (failure == nullptr) helper.release();
  return failure;
}

template <ops::RowKind kKind>
OrtStatus* ORT_API_CALL Create(void*, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept {
  *kernel = nullptr;
  try {
    const OrtEpApi& api = *Host().ep;
    const OrtEp* provider = nullptr;
    if (OrtStatus* error = api.KernelInfo_GetEp(info, &provider)) return error;
    Ep& ep = *const_cast<Ep*>(static_cast<const Ep*>(provider));
    ep.allocators().Keep(info);
    if constexpr (kKind == ops::RowKind::kIf) return api.CreateIfKernel(info, kernel);
    if constexpr (kKind == ops::RowKind::kLoop) return WithHelper<LoopHelper>(info, api.CreateLoopKernel, kernel, ep);
    if constexpr (kKind == ops::RowKind::kScan) return WithHelper<ScanHelper>(info, api.CreateScanKernel, kernel, ep);
  } catch (...) {
    return StatusOfException();
  }
}

}  // namespace

OrtKernelCreateFunc ControlFlowKernel(ops::RowKind kind) {
  switch (kind) {
    case ops::RowKind::kOperator:
      break;
    case ops::RowKind::kIf:
      return Create<ops::RowKind::kIf>;
    case ops::RowKind::kLoop:
      return Create<ops::RowKind::kLoop>;
    case ops::RowKind::kScan:
      return Create<ops::RowKind::kScan>;
  }
  return nullptr;
}

}  // namespace cudaep::abi
