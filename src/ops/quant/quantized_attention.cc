// QuantizedAttention, which compiled regions make of two QuantizedMatMuls and the Softmax of codes between them
// (kernels/quant/code_attention.h): q, k and v of int8 codes and rank 4, an optional mask of float or codes [batch or
// 1, 1, 1, keys]; y of int8 or uint8.
//
//   q_perm, k_perm, v_perm   what makes tensors [batch, heads, rows, elements]; the elements are neighbours as they lie
//   y_perm                   what Transpose would have behind it
//   q_zero, k_zero, v_zero, y_zero, mask_zero
//   scores, scaled, masked, shares, result   CodeAttentionStep each: factor, least, most. `scaled`, and `masked` where
//                            there is no mask, are left out
//   exponent, mask_factor
#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/strings.h"
#include "kernels/common/tensor_cores.h"
#include "kernels/quant/code_attention.h"
#include "ops/optional_input.h"
#include "ops/quant/turned.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

enum Input { kQ, kK, kV, kMask };

constexpr size_t kRank = 4;

struct QuantizedAttentionPlan : Plan {
  kernels::CodeAttention attention;
};

class QuantizedAttention final : public Operator {
 public:
  static Result<std::unique_ptr<QuantizedAttention>> Create(const OpInfo& info) {
    auto op = std::make_unique<QuantizedAttention>();
    kernels::CodeAttention& p = op->attention_;
    for (const auto& [perm, name] : {std::pair{&op->q_perm_, "q_perm"}, std::pair{&op->k_perm_, "k_perm"},
                                     std::pair{&op->v_perm_, "v_perm"}, std::pair{&op->y_perm_, "y_perm"}}) {
      *perm = info.IntsOr(name, {0, 1, 2, 3});
      std::vector<int64_t> axes(kRank);
      std::iota(axes.begin(), axes.end(), 0);
      if (!std::ranges::is_permutation(*perm, axes)) {
        return InvalidArgument(name, ' ', Dims(*perm), " is not a permutation of 4 dimensions");
      }
      if (perm->back() != kRank - 1) return NotSupported(name, ' ', Dims(*perm), " moves the elements of a head");
    }
    const auto read_zero = [&](const char* name, DataType type, int32_t& zero) -> Status {
      const int64_t number = info.IntOr(name, 0), lowest = type == DataType::kUint8 ? 0 : -128;
      if (number < lowest || number > lowest + 255) return InvalidArgument(name, ' ', number, " is no code");
      zero = static_cast<int32_t>(number);
      return Status::Ok();
    };
    CUDAEP_RETURN_IF_ERROR(read_zero("q_zero", DataType::kInt8, p.q_zero));
    CUDAEP_RETURN_IF_ERROR(read_zero("k_zero", DataType::kInt8, p.k_zero));
    CUDAEP_RETURN_IF_ERROR(read_zero("v_zero", DataType::kInt8, p.v_zero));
    CUDAEP_RETURN_IF_ERROR(read_zero("y_zero", info.output_type(0), p.y_zero));
    if (info.has_input(kMask)) p.mask = info.input_type(kMask);
    if (p.mask == DataType::kInt8 || p.mask == DataType::kUint8) {
      CUDAEP_RETURN_IF_ERROR(read_zero("mask_zero", p.mask, p.mask_zero));
    }
    p.has_scaled = info.Floats("scaled") ? 1 : 0;
    for (const auto& [step, name] :
         {std::pair{&p.scores, "scores"}, std::pair{&p.scaled, "scaled"}, std::pair{&p.masked, "masked"},
          std::pair{&p.shares, "shares"}, std::pair{&p.result, "result"}}) {
      const bool left_out =
          (step == &p.scaled && p.has_scaled == 0) || (step == &p.masked && p.mask == DataType::kUndefined);
      if (left_out) continue;
      const std::vector<float> numbers = info.Floats(name).value_or(std::vector<float>{});
      if (numbers.size() != 3) return InvalidArgument(name, " needs 3 values, not ", numbers.size());
      *step = {.factor = numbers[0], .least = numbers[1], .most = numbers[2]};
      const bool is_range = step->least == std::nearbyint(step->least) && step->least <= 0 && step->most >= 0 &&
                            step->most - step->least == 255;
      if (!(step->factor > 0) || !std::isfinite(step->factor) || !is_range) {
        return InvalidArgument(name, ": a positive factor, and codes around 0, are needed");
      }
    }
    if (p.has_scaled != 0 && kernels::IsScaledIdle(p)) p.has_scaled = 0;
    const float lowest = info.output_type(0) == DataType::kUint8 ? 0.0f : -128.0f;
    if (p.result.least + static_cast<float>(p.y_zero) != lowest) {
      return InvalidArgument("result from ", p.result.least, " on: with y_zero ", p.y_zero, " not the codes of y");
    }
    p.exponent = info.FloatOr("exponent", 1);
    p.mask_factor = info.FloatOr("mask_factor", 1);
    if (!(p.exponent > 0) || !std::isfinite(p.exponent) || !(p.mask_factor > 0) || !std::isfinite(p.mask_factor)) {
      return InvalidArgument("exponent and mask_factor must be positive numbers");
    }
    CUDAEP_ASSIGN_OR_RETURN(const auto* device, device::GetDeviceInfo(info.settings().device_ordinal));
    if (!kernels::HasTensorCores(DataType::kFloat16, *device)) {
      return NotSupported(device->name, " has no tensor cores for float16");
    }
    return op;
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    for (const int input : {kQ, kK, kV}) {
      const Dims dims = inputs[static_cast<size_t>(input)].dims();
      if (dims.size() != kRank) return InvalidArgument("input ", input, ' ', dims, " must have 4 dimensions");
    }
    const Shape q = Turned(inputs[kQ].dims(), q_perm_), k = Turned(inputs[kK].dims(), k_perm_),
                v = Turned(inputs[kV].dims(), v_perm_);
    const bool fits = k == v && q[0] == k[0] && q[1] == k[1] && q[3] == k[3];
    if (!fits) return InvalidArgument("attention of ", q, " over ", k, " and ", v);
    const TensorView mask = InputAt(inputs, kMask);
    if (mask.present()) {
      const Dims dims = mask.dims();
      const bool by_key =
          dims.size() == kRank && (dims[0] == 1 || dims[0] == q[0]) && dims[1] == 1 && dims[2] == 1 && dims[3] == k[2];
      if (!by_key) return InvalidArgument("mask ", dims, " has no number for each of ", k[2], " keys");
    }
    outputs[0] = Turned(q.dims(), y_perm_);
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    auto plan = std::make_unique<QuantizedAttentionPlan>();
    kernels::CodeAttention& p = plan->attention;
    p = attention_;
    const auto place = [](Dims dims, const std::vector<int64_t>& perm, kernels::AttentionStrides& strides) {
      const Shape turned = Turned(ContiguousStrides(dims).dims(), perm);
      strides = {.batch = turned[0], .head = turned[1], .row = turned[2]};
      return Turned(dims, perm);
    };
    const Shape q = place(context.inputs[kQ].dims(), q_perm_, p.q), k = place(context.inputs[kK].dims(), k_perm_, p.k);
    place(context.inputs[kV].dims(), v_perm_, p.v);
    std::vector<int64_t> back(kRank);  // of y as it lies
    for (size_t i = 0; i < kRank; ++i) back[static_cast<size_t>(y_perm_[i])] = static_cast<int64_t>(i);
    place(context.outputs[0].dims(), back, p.y);
    p.batch = q[0], p.heads = q[1], p.queries = q[2], p.head_size = q[3], p.keys = k[2];
    const TensorView mask = InputAt(context.inputs, kMask);
    if (mask.present()) p.mask_stride = mask.dims()[0] == 1 ? 0 : p.keys;
    if (!kernels::TakesCodeAttention(p)) {
      return NotSupported("attention of codes in heads of ", p.head_size, " elements, ", p.batch, " x ", p.heads,
                          " of them");
    }
    p.kernel = kernels::CodeAttentionKernelOf(p, context.device);
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    return kernels::LaunchCodeAttention(PlanAs<QuantizedAttentionPlan>(plan).attention,
                                        {.q = context.input(kQ),
                                         .k = context.input(kK),
                                         .v = context.input(kV),
                                         .mask = InputAt(context.inputs, kMask).data,
                                         .y = context.output(0)},
                                        context.stream());
  }

 private:
  kernels::CodeAttention attention_;  // without what depends on dimensions
  std::vector<int64_t> q_perm_, k_perm_, v_perm_, y_perm_;
};

const RegisterRows kRows({{.domain = kFusedDomain,
                           .op = "QuantizedAttention",
                           .types = {{"T1", DataType::kInt8},
                                     {"T2", {DataType::kFloat, DataType::kInt8, DataType::kUint8}},
                                     {"T3", kInt8Types}},
                           .make = Make<QuantizedAttention>}});

}  // namespace
}  // namespace cudaep::ops
