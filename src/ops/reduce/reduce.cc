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
        noop_with_empty_axes_(info.BoolOr("noop_with_empty_axes", false)),
        deterministic_(info.settings().deterministic) {}

  static Result<std::unique_ptr<Reduce>> Create(const OpInfo& info, const KernelRow& row) {
    const auto op = row.VariantAs<ReduceOp>();
    const kernels::ReduceKernel kernel = kernels::FindReduceKernel(op, info.input_type(0));
    if (kernel == nullptr) return NotSupported("element type ", DataTypeName(info.input_type(0)));
    return std::make_unique<Reduce>(info, op, kernel);
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
    return PlanReduction(op_, context, reduced, deterministic_);
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
  bool has_axes_input_, keep_dims_, noop_with_empty_axes_, deterministic_;
};

struct Entry {
  const char* name;
  ReduceOp op;
  int until = 18;             // the last version of all,
  int axes_input_since = 18;  // the first with the axes as an input,
  int attribute_until = 13;   // and the last with an attribute
};

std::vector<KernelRow> Rows() {
  std::vector<KernelRow> rows;
  constexpr Entry kEntries[] = {
      {"ReduceL1", ReduceOp::kL1},
      {"ReduceL2", ReduceOp::kL2},
      {"ReduceLogSum", ReduceOp::kLogSum, 28},
      {"ReduceLogSumExp", ReduceOp::kLogSumExp, 28},
      {"ReduceMax", ReduceOp::kMax, 20},
      {"ReduceMean", ReduceOp::kMean},
      {"ReduceMin", ReduceOp::kMin, 20},
      {"ReduceProd", ReduceOp::kProd},
      {"ReduceSum", ReduceOp::kSum, 13, 13, 11},
      {"ReduceSumSquare", ReduceOp::kSumSquare},
  };
  for (const Entry& entry : kEntries) {
    KernelRow row{.op = entry.name,
                  .since = 1,
                  .until = entry.attribute_until,
                  .types = {{"T", kernels::ReduceTypes(entry.op)}},
                  .variant = static_cast<int>(entry.op),
                  .make = Make<Reduce>};
    rows.push_back(row);
    row.since = entry.axes_input_since;
    row.until = entry.until;
    row.host_inputs = {1};
    rows.push_back(std::move(row));
  }
  return rows;
}

const RegisterRows kRows(Rows());

}  // namespace
}  // namespace cudaep::ops
