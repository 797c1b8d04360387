// AllReduce, AllGather, ReduceScatter, AllToAll over the session's group of ranks.
//
// The library exchanges runs of memory, so along other axes than the first the parts are brought together before, or
// taken apart after it.
#include "core/checked_math.h"
#include "kernels/movement/strided_copy.h"
#include "lib/comm.h"
#include "ops/collective/collective_shape.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

struct CollectivePlan : Plan {
  int64_t elems = 0;  // of one part, or of the whole tensor where it is not divided
  bool packs = false, unpacks = false;
  kernels::StridedCopy pack, unpack;
  size_t packed = 0, gathered = 0;  // scratch memory
};

// What lies around an axis of a tensor made of `parts` along it.
struct Parts {
  int64_t parts, outer = 1, inner = 1;

  Parts(Dims dims, int axis, int64_t count) : parts(count) {
    for (int d = 0; d < axis; ++d) outer *= dims[static_cast<size_t>(d)];
    for (size_t d = static_cast<size_t>(axis); d < dims.size(); ++d) inner *= dims[d];
    inner /= parts;
  }

  bool lie_together() const { return outer == 1; }
  Result<kernels::StridedCopy> Pack(size_t elem_bytes) const {
    return kernels::MakeStridedCopy(Shape({parts, outer, inner}), Shape({inner, parts * inner, 1}), 0, elem_bytes);
  }
  Result<kernels::StridedCopy> Unpack(size_t elem_bytes) const {
    return kernels::MakeStridedCopy(Shape({outer, parts, inner}), Shape({inner, outer * inner, 1}), 0, elem_bytes);
  }
};

Result<comm::Reduction> ReadReduction(const OpInfo& info) {
  const std::string name = info.StringOr("reduction", "sum");
  constexpr std::string_view kNames[] = {"sum", "prod", "min", "max", "mean"};
  for (size_t i = 0; i < std::size(kNames); ++i) {
    if (name != kNames[i]) continue;
    const auto reduction = static_cast<comm::Reduction>(i);
    if (reduction != comm::Reduction::kMean || kFloatTypes.Contains(info.input_type(0))) return reduction;
    return NotSupported("the mean of ", DataTypeName(info.input_type(0)), " is not offered: integers have a sum");
  }
  return InvalidArgument("attribute reduction '", name, "'; known: sum, prod, min, max, mean");
}

class CollectiveOperator final : public Operator {
 public:
  static Result<std::unique_ptr<CollectiveOperator>> Create(const OpInfo& info, const KernelRow& row) {
    auto op = std::make_unique<CollectiveOperator>();
    CUDAEP_ASSIGN_OR_RETURN(
        op->shape_, ReadCollectiveShape(row.VariantAs<Collective>(), [&](const char* name) { return info.Int(name); }));
    CUDAEP_ASSIGN_OR_RETURN(op->reduction_, ReadReduction(info));
    // Said before the ranks wait for each other; the host goes on without a shape.
    if (const std::optional<Shape> dims = info.input_dims(0)) {
      CUDAEP_RETURN_IF_ERROR(op->shape_.Infer(*dims).status());
    }
    const int size = info.settings().group.size;
    if (size == 0) {
      return NotSupported("the session belongs to no group of ranks: set the provider options collective_size, ",
                          "collective_rank and collective_file");
    }
    if (op->shape_.group_size != 0 && op->shape_.group_size != size) {
      return InvalidArgument("attribute group_size is ", op->shape_.group_size,
                             ", and provider option collective_size is ", size);
    }
    op->size_ = size;
    return op;
  }

  LibrarySet libraries() const override { return {.comm = size_ > 1}; }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_ASSIGN_OR_RETURN(outputs[0], shape_.Infer(inputs[0].dims()));
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    auto plan = std::make_unique<CollectivePlan>();
    const TensorView& input = context.inputs[0];
    const Shape& output = context.outputs[0];
    const size_t elem_bytes = SizeOf(input.type);
    plan->capturable = size_ == 1;
    plan->elems = shape_.splits() ? input.elems() / size_ : input.elems();
    if (plan->elems == 0 || size_ == 1) return PlanPtr(std::move(plan));
    if (shape_.splits()) {
      CUDAEP_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(shape_.split_axis, input.rank));
      const Parts parts(input.dims(), axis, size_);
      if ((plan->packs = !parts.lie_together())) {
        CUDAEP_ASSIGN_OR_RETURN(plan->pack, parts.Pack(elem_bytes));
        plan->packed = plan->AddScratch(StorageBytes(input.type, input.elems()));
      }
    }
    if (shape_.joins()) {
      CUDAEP_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(shape_.concat_axis, output.rank()));
      const Parts parts(output, axis, size_);
      if ((plan->unpacks = !parts.lie_together())) {
        CUDAEP_ASSIGN_OR_RETURN(plan->unpack, parts.Unpack(elem_bytes));
        plan->gathered = plan->AddScratch(StorageBytes(input.type, plan->elems * size_));
      }
    }
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& base, const OpContext& context) const override {
    const auto& plan = PlanAs<CollectivePlan>(base);
    const void* in = context.input(0);
    void* const out = context.output(0);
    const DataType type = context.inputs[0].type;
    if (plan.elems == 0) return Status::Ok();
    if (size_ == 1) {
      if (context.Shares(0, 0)) return Status::Ok();
      return device::MemcpyAsync(out, in, StorageBytes(type, plan.elems), context.stream());
    }
    if (plan.packs) {
      CUDAEP_RETURN_IF_ERROR(kernels::LaunchStridedCopy(plan.pack, in, context.scratch(plan.packed), context.stream()));
      in = context.scratch(plan.packed);
    }
    void* const to = plan.unpacks ? context.scratch(plan.gathered) : out;
    CUDAEP_RETURN_IF_ERROR(Exchange(plan, context, in, to, type));
    return plan.unpacks ? kernels::LaunchStridedCopy(plan.unpack, to, out, context.stream()) : Status::Ok();
  }

 private:
  Status Exchange(const CollectivePlan& plan, const OpContext& context, const void* in, void* out,
                  DataType type) const {
    comm::Communicator* const group = context.runtime.communicator();
    if (group == nullptr) return Internal("the stream has no communicator");
    const size_t bytes = StorageBytes(type, plan.elems);
    switch (shape_.kind) {
      case Collective::kAllReduce:
        return group->AllReduce(in, out, plan.elems, type, reduction_, context.stream());
      case Collective::kAllGather:
        return group->AllGather(in, out, bytes, context.stream());
      case Collective::kReduceScatter:
        return group->ReduceScatter(in, out, plan.elems, type, reduction_, context.stream());
      case Collective::kAllToAll:
        return group->AllToAll(in, out, bytes, context.stream());
    }
    return Internal("no such collective");
  }

  CollectiveShape shape_;
  comm::Reduction reduction_{};
  int size_ = 0;
};

// The host's custom operators take no complex numbers.
constexpr DataTypeSet kMovedTypes = kNumericTypes | DataTypeSet(DataType::kBool) | kFloat8Types;

// Constraints have the names that the host gives those of custom operators.
KernelRow Row(const char* op, Collective kind, DataTypeSet types) {
  return {.domain = kOwnDomain,
          .op = op,
          .types = {{"Input0", types}},
          .pure = false,
          .variant = static_cast<int>(kind),
          .make = Make<CollectiveOperator>};
}

KernelRow InPlace(KernelRow row) {
  row.in_place = {{0, 0}};
  return row;
}

const RegisterRows kRows({
    InPlace(Row("AllReduce", Collective::kAllReduce, comm::kReducedTypes)),
    Row("AllGather", Collective::kAllGather, kMovedTypes),
    Row("ReduceScatter", Collective::kReduceScatter, comm::kReducedTypes),
    Row("AllToAll", Collective::kAllToAll, kMovedTypes),
});

}  // namespace
}  // namespace cudaep::ops
