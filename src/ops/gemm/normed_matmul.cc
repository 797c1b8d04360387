// Products around a layer normalisation, made by compiled regions (graph/pass/norm_products.h). Both have the inputs
// and attributes of the fused MatMul (matmul.cc) and, behind those, what they need where products do the normalisation
// (norm_products.h); in other calls MatMul and a kernel for the normalisation do the same.
//
//   MatMulNorm    y = A * B + bias + residual, and its normalisation. Inputs [a, b, bias, residual, gamma, beta,
//                 columns, residual moments]; outputs [normalised, or kept, y; moments, (n / 32, 2) for each row; y]
//   NormedMatMul  activation(A * B + bias), A normalised or kept. Inputs [a, b, bias, none, moments, columns]
//
// "norm_products" are the products around a normalisation, of which MatMulNorm may have two: "residual_products" are
// those around the one that made its residual. "epsilon" and "norm_scale", and "residual_epsilon" and "residual_scale",
// are KeptNorm's.
#include "core/float16.h"
#include "ops/call_tensors.h"
#include "ops/gemm/matmul.h"
#include "ops/gemm/norm_products.h"
#include "ops/norm/layer_norm.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

using kernels::KeptNorm;

constexpr int64_t kElementBytes = sizeof(Half), kFloatBytes = sizeof(float);

// A normalisation as the products around it know it.
struct KeptBetween {
  NormProducts products;
  KeptNorm norm;

  static Result<KeptBetween> Read(const OpInfo& info, const char* products, const char* epsilon, const char* scale) {
    KeptBetween kept;
    CUDAEP_ASSIGN_OR_RETURN(kept.products, NormProducts::Read(info, products));
    kept.norm = {.epsilon = info.FloatOr(epsilon, 1e-5f), .scale = info.FloatOr(scale, 1.0f)};
    return kept;
  }
};

struct NormMatMulPlan : Plan {
  PlanPtr matmul;                               // null where `tiles` are
  std::optional<kernels::WarpgroupPlan> tiles;  // of the product with kept rows
  int64_t m = 0, n = 0, k = 0;
  bool keeps = false, kept_residual = false;
  kernels::LayerNormPlans norm;  // unless it keeps
};

class NormMatMulBase : public MatMul {
 protected:
  // Sizes, and MatMul's plan unless `by_tiles`.
  Result<std::unique_ptr<NormMatMulPlan>> Begin(const PlanContext& context, const kernels::ManyRowsProduct& like,
                                                bool by_tiles) const {
    auto plan = std::make_unique<NormMatMulPlan>();
    const Dims a = context.inputs[kA].dims();
    plan->n = context.outputs[0][context.outputs[0].rank() - 1], plan->k = a[a.size() - 1], plan->m = RowsOf(context);
    if (!by_tiles) {
      CUDAEP_ASSIGN_OR_RETURN(plan->matmul, MatMul::MakePlan(context));
      plan->workspace_bytes = plan->matmul->workspace_bytes;
      plan->settled = plan->matmul->settled;
      plan->cost_flops = plan->matmul->cost_flops;
      return plan;
    }
    kernels::ManyRowsProduct product = like;
    product.type = type_, product.m = plan->m, product.n = plan->n, product.k = plan->k, product.constant_b = true;
    plan->tiles = PlanNormProduct(product, context.device);
    if (!plan->tiles) return Internal("no tiles for a product around a normalisation");
    plan->cost_flops = ProductFlops(context.outputs[0], plan->k);
    return plan;
  }
  Status CheckPlain() const {
    return IsPlain() ? Status::Ok() : InvalidArgument("products around a normalisation are not scaled, nor A turned");
  }
  CallTensor WeightsOf(const OpContext& context) const {
    const TensorView& weight = context.inputs[kB];
    const bool is_turned = weight.packed || b_.transpose;
    return {.at = context.input(kB),
            .bytes = static_cast<int64_t>(weight.bytes()),
            .turned = is_turned ? nullptr : &weight};
  }
  // What kernels read before earlier work is done, or multiply as one matrix.
  static Status CheckConstants(const OpInfo& info, int columns) {
    const std::optional<ConstantInfo> weights = info.constant(kB);
    if (weights && weights->dims.rank() == 2 && info.is_constant(columns)) return Status::Ok();
    return InvalidArgument("products that do a normalisation want a matrix of weights and input ", columns,
                           " to be constants");
  }
  Status CheckSizes(TensorViews inputs, const Shape& y, int columns, int64_t vectors, int moments,
                    int64_t width) const {
    if (y.rank() < 1) return InvalidArgument("products that do a normalisation want rows");
    const int64_t n = y[y.rank() - 1], rows = ElementCount(Dims(y).subspan(0, static_cast<size_t>(y.rank() - 1)));
    if (!SameDims(inputs[static_cast<size_t>(columns)].dims(), Shape{vectors, n})) {
      return InvalidArgument("input ", columns, ' ', inputs[static_cast<size_t>(columns)].dims(), " must be [", vectors,
                             ',', n, ']');
    }
    const Dims of_rows = inputs[static_cast<size_t>(moments)].dims();
    if (width % kernels::kNormedPack != 0 || ElementCount(of_rows) != rows * (width / kernels::kMomentElems) * 2) {
      return InvalidArgument("moments ", of_rows, " of ", rows, " rows of ", width, " elements");
    }
    return Status::Ok();
  }
  static int64_t RowsOf(const PlanContext& context) {
    const Dims y = context.outputs[0];
    return ElementCount(y.subspan(0, y.size() - 1));
  }
};

class MatMulNorm final : public NormMatMulBase {
  enum MoreInput : int { kGamma = kResidual + 1, kBeta, kColumns, kResidualMoments };
  enum Output : int { kRows, kMoments, kSum };

 public:
  static Result<std::unique_ptr<MatMulNorm>> Create(const OpInfo& info) {
    auto op = std::make_unique<MatMulNorm>();
    CUDAEP_RETURN_IF_ERROR(op->Read(info));
    CUDAEP_ASSIGN_OR_RETURN(op->own_, KeptBetween::Read(info, "norm_products", "epsilon", "norm_scale"));
    CUDAEP_ASSIGN_OR_RETURN(op->of_residual_,
                            KeptBetween::Read(info, "residual_products", "residual_epsilon", "residual_scale"));
    op->constant_affine_ = info.is_constant(kGamma) && info.is_constant(kBeta);
    op->outputs_ = info.output_count();
    const bool keeps = !op->own_.products.empty(), kept = !op->of_residual_.products.empty();
    if (op->epilogue_.activation != Activation::kNone) return InvalidArgument("MatMulNorm has no activation");
    CUDAEP_RETURN_IF_ERROR(op->CheckPlain());
    if (!info.has_input(kResidual) || !info.has_input(kGamma) || !info.has_input(kBeta) ||
        (kept && !info.has_input(kResidualMoments)) || (keeps && !info.has_output(kMoments))) {
      return InvalidArgument("MatMulNorm misses an input or output");
    }
    if (keeps || kept) CUDAEP_RETURN_IF_ERROR(CheckConstants(info, kColumns));
    return op;
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_RETURN_IF_ERROR(MatMul::InferShapes(inputs, outputs));
    const Shape y = outputs[0];
    const int64_t n = y.rank() == 0 ? 0 : y[y.rank() - 1];
    if (n % kernels::kNormedPack != 0 || y.rank() == 0) {
      return InvalidArgument("moments of rows of ", n, " elements");
    }
    if (!of_residual_.products.empty()) {
      CUDAEP_RETURN_IF_ERROR(CheckSizes(inputs, y, kColumns, 4, kResidualMoments, n));
    } else if (!own_.products.empty() && !SameDims(inputs[kColumns].dims(), Shape{2, n})) {
      return InvalidArgument("input ", int{kColumns}, ' ', inputs[kColumns].dims(), " must be [2,", n, ']');
    }
    for (const int vector : {kGamma, kBeta}) {
      if (SameDims(inputs[static_cast<size_t>(vector)].dims(), Shape{n})) continue;
      return InvalidArgument("scale and bias of a normalisation must have ", n, " elements");
    }
    if (outputs.size() > kMoments) {
      outputs[kMoments] = y;
      outputs[kMoments][y.rank() - 1] = n / kernels::kMomentElems;
      outputs[kMoments].Append(2);
    }
    if (outputs.size() > kSum) outputs[kSum] = y;
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    const int64_t rows = RowsOf(context);
    const bool keeps = own_.products.DoTheNorm(type_, rows, context.device),
               kept = of_residual_.products.DoTheNorm(type_, rows, context.device);
    CUDAEP_ASSIGN_OR_RETURN(auto plan, Begin(context, {.bias = true, .residual = true}, keeps || kept));
    plan->keeps = keeps, plan->kept_residual = kept;
    if (!keeps) {
      CUDAEP_ASSIGN_OR_RETURN(
          plan->norm, kernels::PlanLayerNorm(
                          {.x_type = type_, .y_type = type_, .rows = plan->m, .elems = plan->n, .same_affine = true},
                          context.device));
    }
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& base, const OpContext& context) const override {
    const auto& plan = PlanAs<NormMatMulPlan>(base);
    void* const y = outputs_ > kSum ? context.outputs[kSum] : nullptr;
    void* const sum = y != nullptr ? y : context.output(kRows);  // where a normalisation of its own reads it
    if (plan.tiles) {
      CUDAEP_RETURN_IF_ERROR(EnqueueTiles(plan, context, plan.keeps ? y : sum));
    } else {
      void* const to[] = {sum};
      OpContext product = context;
      product.outputs = to;
      CUDAEP_RETURN_IF_ERROR(MatMul::Enqueue(*plan.matmul, product));
    }
    if (plan.keeps) return Status::Ok();
    return kernels::LaunchLayerNorm({.x_type = type_,
                                     .y_type = type_,
                                     .x = sum,
                                     .scale = context.input(kGamma),
                                     .beta = context.input(kBeta),
                                     .y = context.output(kRows),
                                     .rows = plan.m,
                                     .elems = plan.n,
                                     .scale_map = {.columns = plan.n},
                                     .beta_map = {.columns = plan.n},
                                     .epsilon = static_cast<double>(own_.norm.epsilon),
                                     .constant_affine = constant_affine_,
                                     .plans = &plan.norm},
                                    context.stream());
  }

 private:
  Status EnqueueTiles(const NormMatMulPlan& plan, const OpContext& context, void* y) const {
    const int64_t bytes = plan.m * plan.n * kElementBytes, moments = kernels::MomentBytes(plan.m, plan.n);
    enum Tensor : size_t { kRead, kWeights, kVectors, kAdded, kAddedMoments, kKept, kKeptMoments, kPlain };
    CallTensor tensors[] = {{context.input(kA), plan.m * plan.k * kElementBytes},
                            WeightsOf(context),
                            {context.input(kColumns), plan.n * (plan.kept_residual ? 4 : 2) * kFloatBytes},
                            {context.input(kResidual), bytes},
                            {plan.kept_residual ? context.input(kResidualMoments) : nullptr, moments},
                            {.at = plan.keeps ? context.output(kRows) : nullptr, .bytes = bytes, .written = true},
                            {.at = plan.keeps ? context.output(kMoments) : nullptr, .bytes = moments, .written = true},
                            {.at = y, .bytes = bytes, .written = true}};
    const bool constant_b = !tensors[kWeights].IsCopied();
    return CallInPacks(context.runtime, tensors, [&] {
      kernels::RowsToNormProduct product{
          .type = type_, .m = plan.m, .n = plan.n, .k = plan.k, .residual = {}, .constant_b = constant_b};
      if (plan.kept_residual) product.residual = of_residual_.norm;
      const auto written = [&](Tensor which) { return const_cast<void*>(tensors[which].at); };
      return kernels::LaunchRowsToNorm(product, *plan.tiles,
                                       {.a = tensors[kRead].at,
                                        .b = tensors[kWeights].at,
                                        .columns = static_cast<const float*>(tensors[kVectors].at),
                                        .residual = tensors[kAdded].at,
                                        .residual_moments = static_cast<const float*>(tensors[kAddedMoments].at),
                                        .u = written(kKept),
                                        .moments = static_cast<float*>(written(kKeptMoments)),
                                        .y = written(kPlain)},
                                       context.stream());
    });
  }

  KeptBetween own_, of_residual_;
  bool constant_affine_ = false;
  int outputs_ = 1;
};

class NormedMatMul final : public NormMatMulBase {
  enum MoreInput : int { kMoments = kResidual + 1, kColumns };

 public:
  static Result<std::unique_ptr<NormedMatMul>> Create(const OpInfo& info) {
    auto op = std::make_unique<NormedMatMul>();
    CUDAEP_RETURN_IF_ERROR(op->Read(info));
    CUDAEP_ASSIGN_OR_RETURN(op->kept_, KeptBetween::Read(info, "norm_products", "epsilon", "norm_scale"));
    if (op->epilogue_.residual()) return InvalidArgument("NormedMatMul has no residual");
    CUDAEP_RETURN_IF_ERROR(op->CheckPlain());
    if (op->kept_.products.empty()) return op;
    if (!info.has_input(kMoments)) return InvalidArgument("NormedMatMul misses its moments");
    CUDAEP_RETURN_IF_ERROR(CheckConstants(info, kColumns));
    return op;
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_RETURN_IF_ERROR(MatMul::InferShapes(inputs, outputs));
    if (kept_.products.empty()) return Status::Ok();
    const Dims a = inputs[kA].dims();
    return CheckSizes(inputs, outputs[0], kColumns, 2, kMoments, a.empty() ? 0 : a[a.size() - 1]);
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    const bool kept = kept_.products.DoTheNorm(type_, RowsOf(context), context.device);
    CUDAEP_ASSIGN_OR_RETURN(auto plan, Begin(context, {.bias = true, .activation = epilogue_.activation}, kept));
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& base, const OpContext& context) const override {
    const auto& plan = PlanAs<NormMatMulPlan>(base);
    if (!plan.tiles) return MatMul::Enqueue(*plan.matmul, context);
    enum Tensor : size_t { kKept, kKeptMoments, kWeights, kVectors, kMade };
    CallTensor tensors[] = {{context.input(kA), plan.m * plan.k * kElementBytes},
                            {context.input(kMoments), kernels::MomentBytes(plan.m, plan.k)},
                            WeightsOf(context),
                            {context.input(kColumns), plan.n * 2 * kFloatBytes},
                            {.at = context.output(0), .bytes = plan.m * plan.n * kElementBytes, .written = true}};
    const bool constant_b = !tensors[kWeights].IsCopied();
    return CallInPacks(context.runtime, tensors, [&] {
      return kernels::LaunchNormedRows({.type = type_,
                                        .m = plan.m,
                                        .n = plan.n,
                                        .k = plan.k,
                                        .activation = epilogue_.activation,
                                        .norm = kept_.norm,
                                        .constant_b = constant_b},
                                       *plan.tiles,
                                       {.u = tensors[kKept].at,
                                        .moments = static_cast<const float*>(tensors[kKeptMoments].at),
                                        .b = tensors[kWeights].at,
                                        .columns = static_cast<const float*>(tensors[kVectors].at),
                                        .c = const_cast<void*>(tensors[kMade].at)},
                                       context.stream());
    });
  }

 private:
  KeptBetween kept_;
};

const RegisterRows kRows({
    {.domain = kFusedDomain, .op = "MatMulNorm", .types = {{"T", kFloat16Types}}, .make = Make<MatMulNorm>},
    {.domain = kFusedDomain, .op = "NormedMatMul", .types = {{"T", kFloat16Types}}, .make = Make<NormedMatMul>},
});

}  // namespace
}  // namespace cudaep::ops
