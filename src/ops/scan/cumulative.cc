// CumSum and CumProd; the axis is read on the host.
#include "kernels/scan/scan.h"
#include "ops/registry.h"
#include "ops/shape/host_ints.h"

namespace cudaep::ops {
namespace {

struct CumulativePlan : Plan {
  kernels::Scan scan;
};

class Cumulative final : public Operator {
 public:
  Cumulative(kernels::ScanOp op, bool exclusive, bool reverse) : op_(op), exclusive_(exclusive), reverse_(reverse) {}

  static Result<std::unique_ptr<Cumulative>> Create(const OpInfo& info, const KernelRow& row) {
    return std::make_unique<Cumulative>(row.VariantAs<kernels::ScanOp>(), info.BoolOr("exclusive", false),
                                        info.BoolOr("reverse", false));
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_RETURN_IF_ERROR(AxisOf(inputs).status());
    outputs[0].Assign(inputs[0].dims());
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    const TensorView& x = context.inputs[0];
    CUDAEP_ASSIGN_OR_RETURN(const int axis, AxisOf(context.inputs));
    const auto at = static_cast<size_t>(axis);
    auto plan = std::make_unique<CumulativePlan>();
    plan->scan = kernels::PlanScan({.op = op_,
                                    .type = x.type,
                                    .outer = ElementCount(x.dims().first(at)),
                                    .length = x.dim[axis],
                                    .inner = ElementCount(x.dims().subspan(at + 1)),
                                    .exclusive = exclusive_ ? 1 : 0,
                                    .reverse = reverse_ ? 1 : 0},
                                   context.device.multiprocessors);
    plan->workspace_bytes = plan->scan.scratch_bytes();
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    return kernels::LaunchScan(PlanAs<CumulativePlan>(plan).scan, context.input(0), context.output(0),
                               context.workspace, context.stream());
  }

 private:
  static Result<int> AxisOf(TensorViews inputs) {
    CUDAEP_ASSIGN_OR_RETURN(const std::vector<int64_t> axis, HostInts(inputs[1], "axis"));
    if (axis.size() != 1) return InvalidArgument("axis has shape ", inputs[1].dims(), ", expected one element");
    return NormalizeAxis(axis[0], inputs[0].rank);
  }

  kernels::ScanOp op_;
  bool exclusive_, reverse_;
};

KernelRow CumulativeRow(const char* op, int since, int until, kernels::ScanOp variant) {
  return {.op = op,
          .since = since,
          .until = until,
          .types = {{"T", kernels::kScanTypes}, {"T2", kIndexTypes}},
          .host_inputs = {1},
          .in_place = {{0, 0}},
          .variant = static_cast<int>(variant),
          .make = Make<Cumulative>};
}

const RegisterRows kRows({
    CumulativeRow("CumSum", 11, 14, kernels::ScanOp::kSum),
    CumulativeRow("CumProd", 26, 26, kernels::ScanOp::kProduct),
});

}  // namespace
}  // namespace cudaep::ops
