// The Reduce* operators. The axes are an attribute at first and a host input later (ReduceSum 13, the others 18).
#include "kernels/reduce/reduce.h"

#include "ops/reduce/reduction.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

using kernels::ReduceOp;

class Reduce : public Operator {
 public:
  Reduce(const OpInfo& info, ReduceOp op, kernels::ReduceKernel kernel)
      : op_(op),
        kernel_(kernel),
        axes_(info.IntsOr("axes", {})),
        has_axes_input_(info.has_input(1)),
        keep_dims_(info.BoolOr("keepdims", true)),
        noop_with_empty_axes_(info.BoolOr("noop_with_empty_axes", false)) {}

  template <ReduceOp op>
  static Result<OperatorPtr> Create(const OpInfo& info, const KernelRow&) {
    const kernels::ReduceKernel kernel = kernels::FindReduceKernel(op, info.input_type(0));
    if (kernel == nullptr) return NotSupported("element type ", DataTypeName(info.input_type(0)));
    return OperatorPtr(std::make_unique<Reduce>(info, op, kernel));
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_ASSIGN_OR_RETURN(const DimFlags reduced, Reduced(inputs));
    const Dims dims = inputs[0].dims();
    outputs[0] = Shape();
    for (size_t i = 0; i < dims.size(); ++i) {
      if (!reduced[i]) {
        outputs[0].Append(dims[i]);
      } else if (keep_dims_) {
        outputs[0].Append(1);
      }
    }
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    CUDAEP_ASSIGN_OR_RETURN(const DimFlags reduced, Reduced(context.inputs));
    return PlanReduction(op_, context, reduced);
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    return EnqueueReduction(op_, kernel_, plan, context);
  }

 private:
  // No axes mean all of them, or none with noop_with_empty_axes; even then what is done to elements is done.
  Result<DimFlags> Reduced(TensorViews inputs) const {
    const int rank = inputs[0].rank;
    std::span<const int64_t> axes = axes_;
    if (has_axes_input_) {
      if (inputs[1].rank > 1) return InvalidArgument("axes have shape ", inputs[1].dims(), ", expected a vector");
      axes = inputs[1].host<int64_t>();
    }
    DimFlags reduced(static_cast<size_t>(rank), axes.empty() && !noop_with_empty_axes_);
    for (const int64_t axis : axes) {
      CUDAEP_ASSIGN_OR_RETURN(const int index, NormalizeAxis(axis, rank));
      reduced[static_cast<size_t>(index)] = true;
    }
    return reduced;
  }

  ReduceOp op_;
  kernels::ReduceKernel kernel_;
  std::vector<int64_t> axes_;
  bool has_axes_input_, keep_dims_, noop_with_empty_axes_;
};

struct Entry {
  const char* name;
  OperatorFactory make;
  int attribute_until;   // the last version with the axes as an attribute,
  int axes_input_since;  // the first with an input,
  int until;             // and the last of all
  DataTypeSet types;
};

template <ReduceOp op>
constexpr Entry Named(const char* name, int until = 18, int axes_input_since = 18, int attribute_until = 13) {
  return {name, Reduce::Create<op>, attribute_until, axes_input_since, until, kernels::ReduceTypes(op)};
}

std::vector<KernelRow> Rows() {
  std::vector<KernelRow> rows;
  for (const Entry& entry : {
           Named<ReduceOp::kL1>("ReduceL1"),
           Named<ReduceOp::kL2>("ReduceL2"),
           Named<ReduceOp::kLogSum>("ReduceLogSum"),
           Named<ReduceOp::kLogSumExp>("ReduceLogSumExp"),
           Named<ReduceOp::kMax>("ReduceMax", 20),
           Named<ReduceOp::kMean>("ReduceMean"),
           Named<ReduceOp::kMin>("ReduceMin", 20),
           Named<ReduceOp::kProd>("ReduceProd"),
           Named<ReduceOp::kSum>("ReduceSum", 13, 13, 11),
           Named<ReduceOp::kSumSquare>("ReduceSumSquare"),
       }) {
    rows.push_back({.op = entry.name,
                    .since = 1,
                    .until = entry.attribute_until,
                    .types = {{"T", entry.types}},
                    .make = entry.make});
    rows.push_back({.op = entry.name,
                    .since = entry.axes_input_since,
                    .until = entry.until,
                    .types = {{"T", entry.types}},
                    .host_inputs = {1},
                    .make = entry.make});
  }
  return rows;
}

const RegisterRows kRows(Rows());

}  // namespace
}  // namespace cudaep::ops
