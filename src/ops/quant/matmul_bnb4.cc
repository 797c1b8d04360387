// com.microsoft's MatMulBnb4: a product with weights of 4 bits [N, K], transposed unless transB is 0. Few rows meet the
// codes; for many, and for the other direction, the weights become a matrix and the product is the library's.
#include <bit>
#include <optional>

#include "kernels/quant/bnb4.h"
#include "ops/gemm/gemm_plan.h"
#include "ops/gemm/matrix_product.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

enum Input : int { kA, kB, kScales };

struct Bnb4Plan : Plan {
  std::optional<MatrixProduct> product;  // none: few rows, or an empty result
  size_t matrix = 0, product_workspace = 0;
  int64_t rows = 0;
};

class MatMulBnb4 final : public Operator {
 public:
  MatMulBnb4(const kernels::Bnb4Weights& weights, bool transposed, const Settings& settings)
      : weights_(weights), transposed_(transposed), options_(settings) {
    options_.constant_b = true;  // scratch memory, which is aligned
  }

  static Result<std::unique_ptr<MatMulBnb4>> Create(const OpInfo& info) {
    const int64_t table = info.IntOr("quant_type", -1);
    kernels::Bnb4Weights weights{.type = info.input_type(kA),
                                 .n = info.IntOr("N", 0),
                                 .k = info.IntOr("K", 0),
                                 .block = info.IntOr("block_size", 0)};
    if (table != 0 && table != 1) return InvalidArgument("quant_type ", table, " must be 0 (FP4) or 1 (NF4)");
    weights.table = table == 0 ? kernels::Bnb4Table::kFp4 : kernels::Bnb4Table::kNf4;
    if (weights.n <= 0 || weights.k <= 0) {
      return InvalidArgument("K ", weights.k, " and N ", weights.n, " must be > 0");
    }
    if (!FitsInt32(weights.n) || !FitsInt32(weights.k)) {
      return NotSupported("K ", weights.k, " or N ", weights.n, " beyond 2^31");
    }
    if (weights.block < 16 || !std::has_single_bit(static_cast<uint64_t>(weights.block))) {
      return InvalidArgument("block_size ", weights.block, " must be a power of two from 16 on");
    }
    return std::make_unique<MatMulBnb4>(weights, info.IntOr("transB", 1) != 0, info.settings());
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    const TensorView& a = inputs[kA];
    const int64_t elems = weights_.n * weights_.k, inner = transposed_ ? weights_.k : weights_.n;
    if (a.rank == 0 || a.dim[a.rank - 1] != inner) {
      return InvalidArgument("A ", a.dims(), " does not end with ", transposed_ ? "K " : "N ", inner);
    }
    if (inputs[kB].elems() != CeilDiv<int64_t>(elems, 2)) {
      return InvalidArgument("B ", inputs[kB].dims(), " must have ", CeilDiv<int64_t>(elems, 2), " elements");
    }
    if (inputs[kScales].elems() != CeilDiv(elems, weights_.block)) {
      return InvalidArgument("absmax ", inputs[kScales].dims(), " must have ", CeilDiv(elems, weights_.block),
                             " elements");
    }
    outputs[0].Assign(a.dims());
    outputs[0][a.rank - 1] = transposed_ ? weights_.n : weights_.k;
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    auto plan = std::make_unique<Bnb4Plan>();
    const int64_t inner = transposed_ ? weights_.k : weights_.n;
    plan->cost_flops = ProductFlops(context.outputs[0], inner);
    plan->rows = context.inputs[kA].elems() / inner;
    if (plan->rows == 0 || (transposed_ && plan->rows <= kernels::kMostBnb4Rows)) return PlanPtr(std::move(plan));
    CUDAEP_ASSIGN_OR_RETURN(
        MatMulGeometry geometry,
        PlaceMatMul(Shape{plan->rows, inner}, {}, Shape{weights_.n, weights_.k}, {.transpose = transposed_}));
    geometry.problem.types = lib::MixedTypes::Of(weights_.type);
    CUDAEP_ASSIGN_OR_RETURN(plan->product, MatrixProduct::Make(context.runtime, geometry.problem, options_));
    plan->matrix = plan->AddScratch(static_cast<size_t>(weights_.n * weights_.k) * SizeOf(weights_.type));
    plan->product_workspace = plan->AddScratch(plan->product->workspace_bytes());
    return PlanPtr(std::move(plan));
  }

  LibrarySet libraries() const override { return {.blas = true}; }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    const auto& p = PlanAs<Bnb4Plan>(plan);
    if (p.rows == 0) return Status::Ok();
    kernels::Bnb4Weights weights = weights_;
    weights.codes = context.input<uint8_t>(kB);
    weights.scales = context.input(kScales);
    if (!p.product) {
      return kernels::LaunchMatMulBnb4(weights, context.input(kA), p.rows, context.output(0), context.stream());
    }
    void* const matrix = context.scratch(p.matrix);
    CUDAEP_RETURN_IF_ERROR(kernels::LaunchDequantizeBnb4(weights, matrix, context.stream()));
    return p.product->Enqueue(context.runtime, {.a = context.input(kA),
                                                .b = matrix,
                                                .c = context.output(0),
                                                .workspace = context.scratch(p.product_workspace)});
  }

 private:
  const kernels::Bnb4Weights weights_;  // without pointers
  const bool transposed_;
  ProductOptions options_;
};

const RegisterRows kRows({
    {.domain = kMicrosoftDomain,
     .op = "MatMulBnb4",
     .types = {{"T1", kFloatTypesNoDouble}, {"T2", DataType::kUint8}},
     .make = Make<MatMulBnb4>},
});

}  // namespace
}  // namespace cudaep::ops
