#include "lib/cuda/dnn_execute.h"

#include <algorithm>
#include <limits>

#include "lib/problem_check.h"

namespace cudaep::dnn {
namespace {

constexpr int kTimedRuns = 3;

// Scratch tensors, zero filled: NaNs or denormals of fresh memory would slow some kernels down.
struct Scratch {
  device::UniqueDeviceMemory x, w, bias, y, workspace;
  ConvPointers pointers() const { return {x.get(), w.get(), bias.get(), y.get(), workspace.get()}; }
};

Status AllocateZeroed(size_t bytes, device::Stream stream, device::UniqueDeviceMemory* memory) {
  if (bytes == 0) return Status::Ok();
  CUDAEP_RETURN_IF_ERROR(device::Malloc(memory->Receive(), bytes));
  return device::MemsetAsync(memory->get(), 0, bytes, stream);
}

Status Allocate(const ConvProblem& p, size_t workspace_bytes, device::Stream stream, Scratch* scratch) {
  const ConvSizes sizes = SizesOf(p);
  const size_t elem = SizeOf(p.type);
  CUDAEP_RETURN_IF_ERROR(AllocateZeroed(static_cast<size_t>(sizes.x) * elem, stream, &scratch->x));
  CUDAEP_RETURN_IF_ERROR(AllocateZeroed(static_cast<size_t>(sizes.w) * elem, stream, &scratch->w));
  CUDAEP_RETURN_IF_ERROR(AllocateZeroed(static_cast<size_t>(sizes.y) * elem, stream, &scratch->y));
  CUDAEP_RETURN_IF_ERROR(AllocateZeroed(static_cast<size_t>(p.out_channels) * elem, stream, &scratch->bias));
  return AllocateZeroed(workspace_bytes, stream, &scratch->workspace);
}

// Milliseconds of the timed runs, after one run that loads the kernels.
Result<float> TimePlan(const CudnnApi& api, cudnnHandle_t handle, device::Stream stream, const EnginePlan& plan,
                       const ConvPointers& pointers, bool fused_bias) {
  device::UniqueEvent begin, end;
  CUDAEP_RETURN_IF_ERROR(device::EventCreate(begin.Receive(), device::EventKind::kTiming));
  CUDAEP_RETURN_IF_ERROR(device::EventCreate(end.Receive(), device::EventKind::kTiming));
  CUDAEP_RETURN_IF_ERROR(Execute(api, handle, plan.plan, pointers, fused_bias));
  CUDAEP_RETURN_IF_ERROR(device::EventRecord(begin.get(), stream));
  for (int run = 0; run < kTimedRuns; ++run) {
    CUDAEP_RETURN_IF_ERROR(Execute(api, handle, plan.plan, pointers, fused_bias));
  }
  CUDAEP_RETURN_IF_ERROR(device::EventRecord(end.get(), stream));
  CUDAEP_RETURN_IF_ERROR(device::EventSynchronize(end.get()));
  float milliseconds = 0;
  CUDAEP_RETURN_IF_ERROR(device::EventElapsedMs(&milliseconds, begin.get(), end.get()));
  return milliseconds;
}

}  // namespace

// A variant pack cannot be changed once it is final (cuDNN 9.19 answers BAD_PARAM), so each call makes one: a small
// host allocation inside the library, no device work. Keeping packs per plan would need a lock or bind plans to
// threads.
Status Execute(const CudnnApi& api, cudnnHandle_t handle, const Descriptor& plan, const ConvPointers& pointers,
               bool fused_bias) {
  const int64_t ids[] = {kTensorX, kTensorW, kTensorY, kTensorBias};
  const void* addresses[] = {pointers.x, pointers.w, pointers.y, pointers.bias};
  const int64_t count = fused_bias ? 4 : 3;
  CUDAEP_ASSIGN_OR_RETURN(const Descriptor pack,
                          DescriptorBuilder(api, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, "cuDNN variant pack")
                              .SetRaw(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids)
                              .SetRaw(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, addresses)
                              .SetRaw(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &pointers.workspace)
                              .Finish());
  return ToStatus(api, api.cudnnBackendExecute(handle, plan.get(), pack.get()), "cudnnBackendExecute");
}

Result<size_t> FindFastest(const CudnnApi& api, cudnnHandle_t handle, device::Stream stream, const ConvProblem& problem,
                           const std::vector<EnginePlan>& plans, bool fused_bias) {
  size_t workspace_bytes = 0;
  for (const EnginePlan& plan : plans) workspace_bytes = std::max(workspace_bytes, plan.workspace_bytes);
  Scratch scratch;
  CUDAEP_RETURN_IF_ERROR(Allocate(problem, workspace_bytes, stream, &scratch));
  size_t best = plans.size();
  float best_ms = std::numeric_limits<float>::infinity();
  Status failure = NotSupported("no plan was measured");
  for (size_t i = 0; i < plans.size(); ++i) {
    Result<float> ms = TimePlan(api, handle, stream, plans[i], scratch.pointers(), fused_bias);
    if (!ms.ok()) {
      if (ms.status().code() == StatusCode::kDeviceLost) return std::move(ms).status();
      failure = std::move(ms).status();
    } else if (*ms < best_ms) {
      best = i;
      best_ms = *ms;
    }
  }
  CUDAEP_RETURN_IF_ERROR(device::StreamSynchronize(stream));  // the scratch memory is released here
  if (best == plans.size()) return failure;
  return best;
}

}  // namespace cudaep::dnn
