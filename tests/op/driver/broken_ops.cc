// Operators that break the contract, one bug each: the negative tests of the harness (tests/op/test_harness.py). Each
// means to copy its input. They are rows of a domain of their own.
#include "broken_ops.h"

#include "ops/registry.h"

namespace cudaep::test {
namespace {

using ops::OpContext;
using ops::OpInfo;
using ops::Plan;

class CopyBase : public ops::Operator {
 public:
  Status InferShapes(ops::TensorViews inputs, std::vector<Shape>& outputs) const override {
    outputs[0] = Shape(inputs[0].dims());
    return Status::Ok();
  }

 protected:
  static Status Copy(const OpContext& context, size_t bytes, device::Stream stream) {
    return device::MemcpyAsync(context.output(0), context.input(0), bytes, stream);
  }
  static size_t Bytes(const OpContext& context) { return context.inputs[0].bytes(); }
};

struct Correct : CopyBase {
  Status Enqueue(const Plan&, const OpContext& context) const override {
    return Copy(context, Bytes(context), context.stream());
  }
};

struct OtherStream : CopyBase {
  Status Enqueue(const Plan&, const OpContext& context) const override {
    CUDAEP_RETURN_IF_ERROR(device::StreamSynchronize(context.stream()));
    CUDAEP_RETURN_IF_ERROR(Copy(context, Bytes(context), nullptr));
    return device::StreamSynchronize(nullptr);
  }
};

struct LastByteMissing : CopyBase {
  Status Enqueue(const Plan&, const OpContext& context) const override {
    return Copy(context, Bytes(context) - 1, context.stream());
  }
};

struct OneByteMore : CopyBase {
  Status Enqueue(const Plan&, const OpContext& context) const override {
    CUDAEP_RETURN_IF_ERROR(Copy(context, Bytes(context), context.stream()));
    return device::MemsetAsync(context.output<char>(0) + Bytes(context), 7, 1, context.stream());
  }
};

// Scratch memory past what the plan asked for, which the stream's shared block would hide.
struct WorkspaceOverrun : CopyBase {
  Result<ops::PlanPtr> MakePlan(const ops::PlanContext&) const override {
    auto plan = std::make_unique<Plan>();
    plan->workspace_bytes = 100;
    return plan;
  }
  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    CUDAEP_RETURN_IF_ERROR(
        device::MemsetAsync(static_cast<char*>(context.workspace) + plan.workspace_bytes, 7, 1, context.stream()));
    return Copy(context, Bytes(context), context.stream());
  }
};

// Values of the first launch, whatever later ones are given.
struct StaleValues : CopyBase {
  Status Enqueue(const Plan&, const OpContext& context) const override {
    if (!cache_) {
      CUDAEP_RETURN_IF_ERROR(device::Malloc(cache_.Receive(), Bytes(context)));
      CUDAEP_RETURN_IF_ERROR(device::MemcpyAsync(cache_.get(), context.input(0), Bytes(context), context.stream()));
    }
    return device::MemcpyAsync(context.output(0), cache_.get(), Bytes(context), context.stream());
  }
  mutable device::UniqueDeviceMemory cache_;
};

struct WaitsInEnqueue : CopyBase {
  Status Enqueue(const Plan&, const OpContext& context) const override {
    CUDAEP_RETURN_IF_ERROR(Copy(context, Bytes(context), context.stream()));
    return device::StreamSynchronize(context.stream());
  }
};

// Nothing at first, as a plan that is not ready would.
struct RightWhenRepeated : CopyBase {
  Status Enqueue(const Plan&, const OpContext& context) const override {
    return runs_++ == 0 ? Status::Ok() : Copy(context, Bytes(context), context.stream());
  }
  mutable int runs_ = 0;
};

// Packs of 16 bytes from the address below, whatever the pointer.
struct WholePacks : CopyBase {
  Status Enqueue(const Plan&, const OpContext& context) const override {
    const size_t past = reinterpret_cast<uintptr_t>(context.output(0)) % 16;
    return Copy(context, Bytes(context) - past, context.stream());
  }
};

struct WrongShape : CopyBase {
  Status InferShapes(ops::TensorViews inputs, std::vector<Shape>& outputs) const override {
    outputs[0] = Shape({inputs[0].dims()[0] + 1});
    return Status::Ok();
  }
  Status Enqueue(const Plan&, const OpContext& context) const override {
    return Copy(context, Bytes(context), context.stream());
  }
};

// Writes before it reads, though its row lets the output be the input's buffer.
struct ClearsFirst : CopyBase {
  Status Enqueue(const Plan&, const OpContext& context) const override {
    CUDAEP_RETURN_IF_ERROR(device::MemsetAsync(context.output(0), 0, Bytes(context), context.stream()));
    return Copy(context, Bytes(context), context.stream());
  }
};

// Relies on the alias and copies nothing when the buffers differ.
struct AliasOnly : CopyBase {
  Status Enqueue(const Plan&, const OpContext&) const override { return Status::Ok(); }
};

// Reads a host input when the work runs, not when it is enqueued.
struct LateHostRead : CopyBase {
  Status Enqueue(const Plan&, const OpContext& context) const override {
    struct Late {
      const void* from;
      void* to;
    };
    static Late late;
    CUDAEP_RETURN_IF_ERROR(device::HostMalloc(pinned_.Receive(), Bytes(context)));
    late = {context.input(0), pinned_.get()};
    CUDAEP_RETURN_IF_ERROR(device::LaunchHostFunc(
        context.stream(), [](void*) { *static_cast<char*>(late.to) = *static_cast<const char*>(late.from); }, nullptr));
    return device::MemcpyAsync(context.output(0), pinned_.get(), 1, context.stream());
  }
  mutable device::UniquePinnedMemory pinned_;
};

template <class Op>
Result<ops::OperatorPtr> MakeBroken(const OpInfo&, const ops::KernelRow&) {
  return ops::OperatorPtr(std::make_unique<Op>());
}

template <class Op>
ops::KernelRow Row(const char* name) {
  return {.domain = kBrokenDomain, .op = name, .types = {{"T", kFixedSizeTypes}}, .make = MakeBroken<Op>};
}

std::vector<ops::KernelRow> Rows() {
  std::vector<ops::KernelRow> rows{
      Row<Correct>("Correct"),         Row<OtherStream>("OtherStream"),
      Row<OneByteMore>("OneByteMore"), Row<LastByteMissing>("LastByteMissing"),
      Row<StaleValues>("StaleValues"), Row<WorkspaceOverrun>("WorkspaceOverrun"),
      Row<ClearsFirst>("ClearsFirst"), Row<WaitsInEnqueue>("WaitsInEnqueue"),
      Row<AliasOnly>("AliasOnly"),     Row<LateHostRead>("LateHostRead"),
      Row<WholePacks>("WholePacks"),   Row<RightWhenRepeated>("RightWhenRepeated"),
      Row<WrongShape>("WrongShape"),
  };
  for (ops::KernelRow& row : rows) {
    const std::string_view name = row.op;
    if (name == "ClearsFirst" || name == "Correct") row.in_place = {{0, 0}};
    if (name == "AliasOnly" || name == "Correct") row.aliases = {{0, 0}};
    if (name == "LateHostRead") row.host_inputs = {0};
  }
  return rows;
}

const ops::RegisterRows kRows(Rows());

}  // namespace
}  // namespace cudaep::test
