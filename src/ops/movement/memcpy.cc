// The host's own operators for values that cross between host and device memory.
#include <algorithm>
#include <array>
#include <cstring>

#include "ops/registry.h"
#include "runtime/captured_copy.h"

namespace cudaep::ops {
namespace {

class Memcpy : public Operator {
 public:
  explicit Memcpy(const Settings& settings) : own_stream_(!settings.copy_in_default_stream) {}

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const final {
    outputs[0].Assign(inputs[0].dims());
    return Status::Ok();
  }

  Status Enqueue(const Plan&, const OpContext& context) const final {
    const Status copied = EnqueueCopy(context);
    // The copy is in the order of the compute stream, on whichever it runs.
    context.runtime.pinned().UsedOn(HostSide(context), context.stream());
    return copied;
  }

 private:
  virtual Status Copy(const OpContext& context, device::Stream stream) const = 0;
  virtual const void* HostSide(const OpContext& context) const = 0;

  Status EnqueueCopy(const OpContext& context) const {
    if (!own_stream_) return Copy(context, context.stream());
    CUDAEP_ASSIGN_OR_RETURN(CopyStream* const copies, context.runtime.copies());
    CUDAEP_ASSIGN_OR_RETURN(const device::Stream stream, copies->Begin(context.stream()));
    const Status copied = Copy(context, stream);
    const Status joined = copies->End(context.stream());
    return copied.ok() ? joined : copied;
  }

  const bool own_stream_;
};

// The driver stages copies of pageable memory up to this size without waiting for the stream (CUDA runtime API,
// "API synchronization behavior").
constexpr size_t kStagedBytes = 64 * 1024;

// The host may reuse or free the source as soon as the kernel call returns. A copy of pageable memory has read its
// source by then; one of pinned memory reads it when the stream gets there. So a pinned source goes through pageable
// memory in pieces that the driver stages at once, which neither waits for the stream nor allocates.
// Larger pinned memory of our own is read in place: freed, it waits for the copy (Allocator::UsedOn), and what is
// written into it otherwise comes from copies, in order, or from a caller who bound it and waits for the Run, as for
// any input that is copied. Small sources may be outputs of Shape and Size, which are written when they are queued,
// maybe into memory that the host's planner gave to two of them in turn.
class MemcpyFromHost final : public Memcpy {
 public:
  using Memcpy::Memcpy;
  static Result<std::unique_ptr<MemcpyFromHost>> Create(const OpInfo& info) {
    return std::make_unique<MemcpyFromHost>(info.settings());
  }

  bool PlanReadsHostInput(int) const override { return false; }

 private:
  Status Copy(const OpContext& context, device::Stream stream) const override {
    const void* const source = context.input(0);
    const size_t bytes = context.inputs[0].bytes();
    CUDAEP_RETURN_IF_ERROR(RefuseCapturedPageable(source, stream));
    device::PointerInfo info;
    CUDAEP_RETURN_IF_ERROR(device::GetPointerInfo(source, &info));
    if (info.kind == device::PointerKind::kPinnedHost) {
      // A graph reads its source at each replay, from where the owner of the graph promises to keep it.
      device::CaptureState capture;
      CUDAEP_RETURN_IF_ERROR(device::StreamCaptureState(stream, &capture));
      const bool in_place = bytes > kStagedBytes && context.runtime.pinned().Owns(source);
      if (capture == device::CaptureState::kNone && !in_place) return CopyStaged(context, bytes, stream);
    }
    return device::MemcpyAsync(context.output(0), source, bytes, stream);
  }

  const void* HostSide(const OpContext& context) const override { return context.input(0); }

  static Status CopyStaged(const OpContext& context, size_t bytes, device::Stream stream) {
    std::array<std::byte, kStagedBytes> staging;
    for (size_t at = 0; at < bytes; at += staging.size()) {
      const size_t piece = std::min(staging.size(), bytes - at);
      std::memcpy(staging.data(), context.input<std::byte>(0) + at, piece);
      CUDAEP_RETURN_IF_ERROR(device::MemcpyAsync(context.output<std::byte>(0) + at, staging.data(), piece, stream));
    }
    return Status::Ok();
  }
};

// The host waits before it reads the output: by a notification, or by flushing the stream after a Loop's iteration.
class MemcpyToHost final : public Memcpy {
 public:
  using Memcpy::Memcpy;
  static Result<std::unique_ptr<MemcpyToHost>> Create(const OpInfo& info) {
    return std::make_unique<MemcpyToHost>(info.settings());
  }

  // A graph that is captured has nothing yet for the CPU to read, so what the CPU does would be captured wrongly.
  Result<PlanPtr> MakePlan(const PlanContext&) const override {
    auto plan = std::make_unique<Plan>();
    plan->capturable = false;
    return plan;
  }

 private:
  Status Copy(const OpContext& context, device::Stream stream) const override {
    context.runtime.HostCopyQueued();
    return device::MemcpyAsync(context.output(0), context.input(0), context.inputs[0].bytes(), stream);
  }
  const void* HostSide(const OpContext& context) const override { return context.output(0); }
};

const RegisterRows kRows({
    {.op = "MemcpyFromHost", .types = {{"T", kAnySizedTypes}}, .host_inputs = {0}, .make = Make<MemcpyFromHost>},
    {.op = "MemcpyToHost", .types = {{"T", kAnySizedTypes}}, .host_outputs = {0}, .make = Make<MemcpyToHost>},
});

}  // namespace
}  // namespace cudaep::ops
