// QuantizedSoftmax, which compiled regions make of the scores of an attention between codes: DequantizeLinear, the Add
// of a mask, QuantizeLinear, DequantizeLinear, Softmax along the last dimension, QuantizeLinear.
//
//   inputs      x [batch, heads, queries, keys] or of fewer dimensions; mask, of numbers or of codes, which repeats
//               over x in every dimension but the last
//   attributes  x_scale, x_zero; mask_scale, mask_zero of a mask of codes; sum_scale, sum_zero of the masked scores,
//               whose codes count as those of uint8; y_scale, y_zero
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/quant/qlinear_softmax.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

enum Input : size_t { kX, kMask };

using kernels::kMostMaskedRank;
constexpr int64_t kMostRows = INT32_MAX;  // of a launch

struct QuantizedSoftmaxPlan : Plan {
  kernels::QLinearSoftmax softmax;
  int64_t batches = 0, rows = 0;  // rows of each
};

Result<kernels::CodeCoding> CodingOf(const OpInfo& info, const char* scale_name, const char* zero_name, DataType type) {
  const float scale = info.FloatOr(scale_name, 0);
  const int64_t zero = info.IntOr(zero_name, 0), lowest = type == DataType::kInt8 ? -128 : 0;
  if (!(scale > 0)) return InvalidArgument(scale_name, " must be a positive number");
  if (zero < lowest || zero > lowest + 255) return InvalidArgument(zero_name, " ", zero, " is no ", DataTypeName(type));
  return kernels::CodeCoding::Of(scale, static_cast<int32_t>(zero), type);
}

class QuantizedSoftmax final : public Operator {
 public:
  explicit QuantizedSoftmax(const kernels::QLinearSoftmax& softmax) : softmax_(softmax) {}

  static Result<std::unique_ptr<QuantizedSoftmax>> Create(const OpInfo& info) {
    kernels::QLinearSoftmax softmax;
    kernels::SoftmaxMask& mask = softmax.mask;
    mask.type = info.input_type(kMask);
    CUDAEP_ASSIGN_OR_RETURN(mask.scores, CodingOf(info, "x_scale", "x_zero", info.input_type(kX)));
    if (mask.type != DataType::kFloat) {
      CUDAEP_ASSIGN_OR_RETURN(mask.coding, CodingOf(info, "mask_scale", "mask_zero", mask.type));
    }
    CUDAEP_ASSIGN_OR_RETURN(const auto sum, CodingOf(info, "sum_scale", "sum_zero", DataType::kUint8));
    CUDAEP_ASSIGN_OR_RETURN(const auto y, CodingOf(info, "y_scale", "y_zero", info.output_type(0)));
    softmax.x_flip = mask.scores.flip;
    mask.sum = kernels::CodeRounding::Of(sum);
    softmax.y = kernels::CodeRounding::Of(y);
    softmax.scale = sum.scale;
    return std::make_unique<QuantizedSoftmax>(softmax);
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    const Dims x = inputs[kX].dims(), mask = inputs[kMask].dims();
    if (x.empty() || x.size() > kMostMaskedRank) {
      return InvalidArgument("scores ", x, " must have 1 to ", kMostMaskedRank, " dimensions");
    }
    bool repeats = !mask.empty() && mask.size() <= x.size() && mask.back() == x.back();
    for (size_t d = 0; repeats && d + 1 < mask.size(); ++d) {
      repeats = mask[d] == 1 || mask[d] == x[x.size() - mask.size() + d];
    }
    if (!repeats) return InvalidArgument("mask ", mask, " does not repeat over scores ", x);
    outputs[0].Assign(x);
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    const Dims x = context.inputs[kX].dims(), mask = context.inputs[kMask].dims();
    auto plan = std::make_unique<QuantizedSoftmaxPlan>();
    kernels::QLinearSoftmax& softmax = plan->softmax;
    softmax = softmax_;
    softmax.outer = ElementCount(x.first(x.size() - 1));
    softmax.axis = x.back();
    if (softmax.outer * softmax.axis == 0) return PlanPtr(std::move(plan));
    const auto from_last = [](Dims dims, size_t place) {
      return place < dims.size() ? dims[dims.size() - 1 - place] : 1;
    };
    plan->batches = from_last(x, 3);
    plan->rows = softmax.outer / plan->batches;
    if (plan->rows > kMostRows) return NotSupported(plan->rows, " rows of scores in a batch entry, 2^31 or more");
    softmax.mask.queries = kernels::FastDivider(static_cast<uint32_t>(from_last(x, 1)));
    softmax.mask.heads = kernels::FastDivider(static_cast<uint32_t>(from_last(x, 2)));
    int64_t stride = mask.back();
    for (size_t place = 1; place < kMostMaskedRank; ++place) {
      const int64_t size = from_last(mask, place);
      softmax.mask.stride[kMostMaskedRank - 1 - place] = size == 1 ? 0 : stride;
      stride *= size;
    }
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    const auto& of = PlanAs<QuantizedSoftmaxPlan>(plan);
    kernels::QLinearSoftmax softmax = of.softmax;
    const auto* const x = static_cast<const std::byte*>(context.input(kX));
    const auto* const mask = static_cast<const std::byte*>(context.input(kMask));
    auto* const y = static_cast<std::byte*>(context.output(0));
    const int64_t mask_batch = softmax.mask.stride[0] * static_cast<int64_t>(SizeOf(softmax.mask.type));
    // As many batch entries a launch as it takes rows.
    for (int64_t batch = 0, more = 0; batch < of.batches; batch += more) {
      more = std::min(kMostRows / of.rows, of.batches - batch);
      softmax.outer = more * of.rows;
      const int64_t start = batch * of.rows * softmax.axis;
      CUDAEP_RETURN_IF_ERROR(
          kernels::LaunchQLinearSoftmax(softmax, x + start, mask + batch * mask_batch, y + start, context.stream()));
    }
    return Status::Ok();
  }

 private:
  kernels::QLinearSoftmax softmax_;  // without what depends on dimensions
};

const RegisterRows kRows(
    {{.domain = kFusedDomain,
      .op = "QuantizedSoftmax",
      .types = {{"T1", kInt8Types}, {"T2", {DataType::kFloat, DataType::kInt8, DataType::kUint8}}, {"T3", kInt8Types}},
      .in_place = {{0, 0}},
      .make = Make<QuantizedSoftmax>}});

}  // namespace
}  // namespace cudaep::ops
