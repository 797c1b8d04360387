// QuantizedMatMul, which compiled regions make of QLinearMatMul and the Transposes around it: a product of tensors of
// 8-bit codes whose axes lie in any order that leaves some axis of each matrix together. Inputs are QLinearMatMul's,
// with one scale and zero point each. "a_perm" and "b_perm" are what Transpose would have before the product, "y_perm"
// what it would have behind it.
#include <algorithm>
#include <numeric>

#include "kernels/movement/strided_copy.h"
#include "kernels/quant/int_gemm.h"
#include "ops/optional_input.h"
#include "ops/quant/turned.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

enum Input { kA, kAScale, kAZero, kB, kBScale, kBZero, kYScale, kYZero };

struct QuantizedMatMulPlan : Plan {
  kernels::IntGemm gemm;
};

class QuantizedMatMul final : public Operator {
 public:
  static Result<std::unique_ptr<QuantizedMatMul>> Create(const OpInfo& info) {
    auto op = std::make_unique<QuantizedMatMul>();
    op->gemm_ = {.a_type = info.input_type(kA),
                 .b_type = info.input_type(kB),
                 .y_type = info.output_type(0),
                 .scale_type = info.input_type(kAScale)};
    op->a_perm_ = info.IntsOr("a_perm", {});
    op->b_perm_ = info.IntsOr("b_perm", {});
    op->y_perm_ = info.IntsOr("y_perm", {});
    const size_t rank = op->rank();
    if (rank < 2 || rank > kernels::kIntGemmBatchRank + 2) {
      return NotSupported("tensors of rank ", rank, "; 2 to ", kernels::kIntGemmBatchRank + 2, " are offered");
    }
    std::vector<int64_t> axes(rank);
    std::iota(axes.begin(), axes.end(), 0);
    for (const auto* perm : {&op->a_perm_, &op->b_perm_, &op->y_perm_}) {
      if (!std::ranges::is_permutation(*perm, axes)) {
        return InvalidArgument("perm ", Dims(*perm), " is not a permutation of ", rank, " dimensions");
      }
    }
    const int64_t last = axes.back();
    op->gemm_.transpose_b = op->b_perm_[rank - 2] == last;
    if (op->a_perm_.back() != last || op->y_perm_.back() != last ||
        (op->b_perm_.back() != last && !op->gemm_.transpose_b)) {
      return NotSupported("matrices whose elements are apart both ways");
    }
    return op;
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    for (const int input : {kA, kB}) {
      const Dims dims = inputs[static_cast<size_t>(input)].dims();
      if (dims.size() != rank()) return InvalidArgument("rank ", dims.size(), " where ", rank(), " is stated");
    }
    for (const int input : {kAScale, kAZero, kBScale, kBZero, kYScale, kYZero}) {
      const TensorView value = InputAt(inputs, input);
      if (value.present() && value.elems() != 1) return InvalidArgument("input ", input, " must be one element");
    }
    const Shape a = Turned(inputs[kA].dims(), a_perm_), b = Turned(inputs[kB].dims(), b_perm_);
    Shape y = a;
    for (int d = 0; d + 2 < a.rank(); ++d) {
      if (a[d] != b[d] && a[d] != 1 && b[d] != 1) return InvalidArgument("matrices ", a, " and ", b, " of the batch");
      y[d] = a[d] == 1 ? b[d] : a[d];
    }
    if (a[a.rank() - 1] != b[b.rank() - 2]) return InvalidArgument("the product of ", a, " and ", b);
    y[y.rank() - 1] = b[b.rank() - 1];
    outputs[0] = Turned(y.dims(), y_perm_);
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    auto plan = std::make_unique<QuantizedMatMulPlan>();
    const Dims a_dims = context.inputs[kA].dims(), b_dims = context.inputs[kB].dims(),
               y_dims = context.outputs[0].dims();
    const Shape a = Turned(a_dims, a_perm_), b = Turned(b_dims, b_perm_);
    const Shape a_strides = Turned(ContiguousStrides(a_dims).dims(), a_perm_),
                b_strides = Turned(ContiguousStrides(b_dims).dims(), b_perm_);
    Shape y = a, y_strides = a;
    const Shape stored = ContiguousStrides(y_dims);
    for (int d = 0; d < y.rank(); ++d) {
      const auto axis = static_cast<int>(y_perm_[static_cast<size_t>(d)]);
      y[axis] = y_dims[static_cast<size_t>(d)], y_strides[axis] = stored[d];
    }
    const int row = a.rank() - 2, column = a.rank() - 1;
    kernels::IntGemm& gemm = plan->gemm;
    gemm = gemm_;
    gemm.m = a[row], gemm.k = a[column], gemm.n = b[column];
    gemm.lda = a_strides[row], gemm.ldb = b_strides[gemm_.transpose_b ? column : row], gemm.ldc = y_strides[row];
    for (int d = 0; d < row; ++d) {
      gemm.batch[d] = {y[d], a[d] == 1 ? 0 : a_strides[d], b[d] == 1 ? 0 : b_strides[d], y_strides[d]};
    }
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    const auto data = [&](int index) { return InputAt(context.inputs, index).data; };
    return kernels::LaunchIntGemm(PlanAs<QuantizedMatMulPlan>(plan).gemm,
                                  {.a = context.input(kA),
                                   .b = context.input(kB),
                                   .y = context.output(0),
                                   .a_zero = {data(kAZero)},
                                   .b_zero = {data(kBZero)},
                                   .a_scale = {data(kAScale)},
                                   .b_scale = {data(kBScale)},
                                   .y_scale = data(kYScale),
                                   .y_zero = data(kYZero)},
                                  context.stream());
  }

 private:
  size_t rank() const { return a_perm_.size(); }

  kernels::IntGemm gemm_;  // types
  std::vector<int64_t> a_perm_, b_perm_, y_perm_;
};

const RegisterRows kRows(
    {{.domain = kFusedDomain,
      .op = "QuantizedMatMul",
      .types = {{"TS", kFloatTypesNoDouble}, {"T1", kInt8Types}, {"T2", kInt8Types}, {"T3", kInt8Types}},
      .make = Make<QuantizedMatMul>}});

}  // namespace
}  // namespace cudaep::ops
