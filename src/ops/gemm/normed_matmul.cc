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
#include <functional>
#include <utility>

#include "core/float16.h"
#include "kernels/pack.h"
#include "ops/call_memory.h"
#include "ops/gemm/matmul.h"
#include "ops/gemm/norm_products.h"
#include "ops/gemm/turned_weight.h"
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

// What a call reads and writes: tensors that lie where they cannot be moved in packs go by way of copies, and so do
// weights that nobody packed.
class CallTensors {
 public:
  explicit CallTensors(StreamContext& stream) : stream_(stream), memory_(stream) {}

  template <class T>
  void Read(const T*& tensor, int64_t bytes) {
    Add(tensor, bytes, [this, &tensor, bytes](void* at) {
      const void* const from = std::exchange(tensor, static_cast<const T*>(at));
      return device::MemcpyAsync(at, from, static_cast<size_t>(bytes), stream_.stream());
    });
  }
  template <class T>
  void Write(T*& tensor, int64_t bytes) {
    Add(tensor, bytes, [this, &tensor, bytes](void* at) {
      written_.push_back({std::exchange(tensor, static_cast<T*>(at)), at, static_cast<size_t>(bytes)});
      return Status::Ok();
    });
  }
  // [n, k] of [k, n].
  void Turn(const void*& tensor, const TensorView& weight) {
    parts_.push_back({memory_.Add(weight.bytes()), [this, &tensor, &weight](void* at) {
                        tensor = at;
                        return TurnWeight(weight, at, stream_);
                      }});
  }
  // Before and after the call.
  Status Begin() {
    if (parts_.empty()) [[likely]]
      return Status::Ok();
    CUDAEP_RETURN_IF_ERROR(memory_.Take());
    for (const auto& [offset, bring] : parts_) CUDAEP_RETURN_IF_ERROR(bring(memory_.at(offset)));
    return Status::Ok();
  }
  Status End() const {
    for (const auto& [to, from, bytes] : written_) {
      CUDAEP_RETURN_IF_ERROR(device::MemcpyAsync(to, from, bytes, stream_.stream()));
    }
    return Status::Ok();
  }

 private:
  struct Part {
    size_t offset;
    std::function<Status(void* at)> bring;
  };
  struct Written {
    void* to;
    const void* from;
    size_t bytes;
  };
  void Add(const void* tensor, int64_t bytes, std::function<Status(void* at)> bring) {
    if (kernels::IsAligned(tensor, kernels::kPackBytes)) return;
    parts_.push_back({memory_.Add(static_cast<size_t>(bytes)), std::move(bring)});
  }

  StreamContext& stream_;
  CallMemory memory_;
  std::vector<Part> parts_;
  std::vector<Written> written_;
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
  void ReadWeights(const void*& b, const OpContext& context, CallTensors& tensors) const {
    const TensorView& weight = context.inputs[kB];
    if (!weight.packed && !b_.transpose) return tensors.Turn(b, weight);
    tensors.Read(b, static_cast<int64_t>(weight.bytes()));
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
    return op;
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_RETURN_IF_ERROR(MatMul::InferShapes(inputs, outputs));
    const Shape y = outputs[0];
    const int64_t n = y.rank() == 0 ? 0 : y[y.rank() - 1];
    if (n % kernels::kNormedPack != 0) return InvalidArgument("moments of rows of ", n, " elements");
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
    void* const y = context.outputs[kSum];
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
    kernels::RowsToNormProduct product{.type = type_, .m = plan.m, .n = plan.n, .k = plan.k, .residual = {}};
    kernels::RowsToNormPointers at{.a = context.input(kA),
                                   .b = context.input(kB),
                                   .columns = context.input<float>(kColumns),
                                   .residual = context.input(kResidual),
                                   .y = y};
    CallTensors tensors(context.runtime);
    tensors.Read(at.a, plan.m * plan.k * kElementBytes);
    ReadWeights(at.b, context, tensors);
    tensors.Read(at.residual, plan.m * plan.n * kElementBytes);
    tensors.Write(at.y, plan.m * plan.n * kElementBytes);
    if (plan.kept_residual) {
      product.residual = of_residual_.norm;
      at.residual_moments = context.input<float>(kResidualMoments);
      tensors.Read(at.residual_moments, kernels::MomentBytes(plan.m, plan.n));
    }
    tensors.Read(at.columns, plan.n * (plan.kept_residual ? 4 : 2) * kFloatBytes);
    if (plan.keeps) {
      at.u = context.output(kRows), at.moments = context.output<float>(kMoments);
      tensors.Write(at.u, plan.m * plan.n * kElementBytes);
      tensors.Write(at.moments, kernels::MomentBytes(plan.m, plan.n));
    }
    CUDAEP_RETURN_IF_ERROR(tensors.Begin());
    CUDAEP_RETURN_IF_ERROR(kernels::LaunchRowsToNorm(product, *plan.tiles, at, context.stream()));
    return tensors.End();
  }

  KeptBetween own_, of_residual_;
  bool constant_affine_ = false;
};

class NormedMatMul final : public NormMatMulBase {
  enum MoreInput : int { kMoments = kResidual + 1, kColumns };

 public:
  static Result<std::unique_ptr<NormedMatMul>> Create(const OpInfo& info) {
    auto op = std::make_unique<NormedMatMul>();
    CUDAEP_RETURN_IF_ERROR(op->Read(info));
    CUDAEP_ASSIGN_OR_RETURN(op->kept_, KeptBetween::Read(info, "norm_products", "epsilon", "norm_scale"));
    return op;
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    const bool kept = kept_.products.DoTheNorm(type_, RowsOf(context), context.device);
    CUDAEP_ASSIGN_OR_RETURN(auto plan, Begin(context, {.bias = true, .activation = epilogue_.activation}, kept));
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& base, const OpContext& context) const override {
    const auto& plan = PlanAs<NormMatMulPlan>(base);
    if (!plan.tiles) return MatMul::Enqueue(*plan.matmul, context);
    kernels::NormedRowsPointers at{.u = context.input(kA),
                                   .moments = context.input<float>(kMoments),
                                   .b = context.input(kB),
                                   .columns = context.input<float>(kColumns),
                                   .c = context.output(0)};
    CallTensors tensors(context.runtime);
    tensors.Read(at.u, plan.m * plan.k * kElementBytes);
    tensors.Read(at.moments, kernels::MomentBytes(plan.m, plan.k));
    ReadWeights(at.b, context, tensors);
    tensors.Read(at.columns, plan.n * 2 * kFloatBytes);
    tensors.Write(at.c, plan.m * plan.n * kElementBytes);
    CUDAEP_RETURN_IF_ERROR(tensors.Begin());
    CUDAEP_RETURN_IF_ERROR(kernels::LaunchNormedRows(
        {.type = type_, .m = plan.m, .n = plan.n, .k = plan.k, .activation = epilogue_.activation, .norm = kept_.norm},
        *plan.tiles, at, context.stream()));
    return tensors.End();
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
