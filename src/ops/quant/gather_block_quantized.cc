// com.microsoft's GatherBlockQuantized: Gather of a tensor quantized in blocks, dequantized.
#include <algorithm>
#include <bit>

#include "core/checked_math.h"
#include "kernels/quant/gather_quantized.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

enum Input : int { kData, kIndices, kScales, kZeroPoints };

struct GatherQuantizedPlan : Plan {
  kernels::GatherQuantized shape;
};

class GatherBlockQuantized final : public Operator {
 public:
  static Result<std::unique_ptr<GatherBlockQuantized>> Create(const OpInfo& info) {
    auto op = std::make_unique<GatherBlockQuantized>();
    op->type_ = info.input_type(kData);
    op->y_type_ = info.output_type(0);
    op->gather_axis_ = info.IntOr("gather_axis", 0);
    op->quantize_axis_ = info.IntOr("quantize_axis", 1);
    op->block_ = info.IntOr("block_size", 128);
    const bool real = kernels::kQuantFloats.Contains(op->type_);
    const bool power = op->block_ >= 16 && std::has_single_bit(static_cast<uint64_t>(op->block_));
    if (!power && !(real && op->block_ == 0)) {
      return InvalidArgument("block_size ", op->block_, " must be a power of two from 16 on", real ? ", or 0" : "");
    }
    if (real && info.has_input(kZeroPoints)) return InvalidArgument("zero points of ", DataTypeName(op->type_));
    if (op->type_ != DataType::kUint8) return op;
    const int64_t bits = info.IntOr("bits", 4);
    if (bits != 2 && bits != 4 && bits != 8) return InvalidArgument("bits ", bits, "; 2, 4 and 8 are known");
    if (op->gather_axis_ != 0) return NotSupported("gather_axis ", op->gather_axis_, " of uint8 data; 0 is offered");
    op->packed_ = 8 / bits;
    if (bits < 8) op->type_ = bits == 2 ? DataType::kUint2 : DataType::kUint4;
    op->default_zero_ = static_cast<float>(1 << (bits - 1));
    return op;
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_RETURN_IF_ERROR(ShapeOf(inputs).status());
    const Shape data = Unpacked(inputs[kData]);
    CUDAEP_ASSIGN_OR_RETURN(const int at, NormalizeAxis(gather_axis_, data.rank()));
    std::vector<int64_t> dims(data.dims().begin(), data.dims().begin() + at);
    dims.insert(dims.end(), inputs[kIndices].dims().begin(), inputs[kIndices].dims().end());
    dims.insert(dims.end(), data.dims().begin() + at + 1, data.dims().end());
    outputs[0].Assign(dims);
    return CheckedElementCount(outputs[0].dims()).status();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    auto plan = std::make_unique<GatherQuantizedPlan>();
    CUDAEP_ASSIGN_OR_RETURN(plan->shape, ShapeOf(context.inputs));
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    kernels::GatherQuantized args = PlanAs<GatherQuantizedPlan>(plan).shape;
    args.data = context.input(kData);
    args.indices = context.input(kIndices);
    args.scale = context.input(kScales);
    args.zero_point = context.inputs.size() > kZeroPoints ? context.input(kZeroPoints) : nullptr;
    args.y = context.output(0);
    return kernels::LaunchGatherQuantized(args, context.stream());
  }

 private:
  // The data's dimensions in numbers.
  Shape Unpacked(const TensorView& data) const {
    Shape dims(data.dims());
    if (data.rank > 0) dims[data.rank - 1] *= packed_;
    return dims;
  }

  Result<kernels::GatherQuantized> ShapeOf(TensorViews inputs) const {
    const Shape dims = Unpacked(inputs[kData]);
    const int rank = dims.rank();
    CUDAEP_ASSIGN_OR_RETURN(const int gather, NormalizeAxis(gather_axis_, rank));
    CUDAEP_ASSIGN_OR_RETURN(const int quantize, NormalizeAxis(quantize_axis_, rank));
    const auto part = [&](const Shape& of, int from, int to) {
      return ElementCount(of.dims().subspan(static_cast<size_t>(from), static_cast<size_t>(to - from)));
    };
    kernels::GatherQuantized shape{.type = type_,
                                   .index_type = inputs[kIndices].type,
                                   .y_type = y_type_,
                                   .outer = part(dims, 0, gather),
                                   .axis = dims[gather],
                                   .inner = part(dims, gather + 1, rank),
                                   .count = inputs[kIndices].elems(),
                                   .default_zero = default_zero_};
    const TensorView& scales = inputs[kScales];
    if (scales.rank != rank) return InvalidArgument("scales ", scales.dims(), " beside data ", dims.dims());
    const int64_t block = block_ == 0 ? std::max<int64_t>(dims[quantize], 1) : block_;
    const int64_t blocks = CeilDiv(dims[quantize], block);
    const Shape given(scales.dims());
    const int64_t before = part(given, 0, quantize), behind = part(given, quantize + 1, rank);
    // Dimensions before and behind the axis have scales of their own, or share one.
    const int64_t all_before = part(dims, 0, quantize), all_behind = part(dims, quantize + 1, rank);
    const bool shares = kernels::kQuantFloats.Contains(type_);
    const auto fits = [&](int64_t own, int64_t all) { return own == all || (shares && own == 1); };
    if (given[quantize] != blocks || !fits(before, all_before) || !fits(behind, all_behind)) {
      return InvalidArgument("scales ", scales.dims(), " fit no blocks of ", block, " on axis ", quantize, " of ",
                             dims.dims());
    }
    shape.scales = {.axis = dims[quantize], .inner = all_behind, .block = block};
    shape.scales.inner_stride = behind == all_behind ? 1 : 0;
    shape.scales.block_stride = behind;
    shape.scales.outer_stride = before == all_before ? blocks * behind : 0;
    if (inputs.size() > kZeroPoints && inputs[kZeroPoints].present()) {
      CUDAEP_RETURN_IF_ERROR(PlaceZeroPoints(inputs[kZeroPoints], given, shape));
    }
    return shape;
  }

  // They have the shape of the scales; bytes that hold several of them are counted.
  Status PlaceZeroPoints(const TensorView& zeros, const Shape& scales, kernels::GatherQuantized& shape) const {
    Shape wanted = scales;
    const int last = scales.rank() - 1;
    wanted[last] = CeilDiv(scales[last], packed_);
    if (!std::ranges::equal(zeros.dims(), wanted.dims())) {
      return InvalidArgument("zero points ", zeros.dims(), " should be ", wanted.dims());
    }
    shape.scale_row = scales[last];
    shape.zero_row = wanted[last] * packed_;
    return Status::Ok();
  }

  DataType type_ = DataType::kInt4, y_type_ = DataType::kFloat;
  int64_t gather_axis_ = 0, quantize_axis_ = 1, block_ = 128;
  int64_t packed_ = 1;  // numbers of an element
  float default_zero_ = 0;
};

const RegisterRows kRows({
    {.domain = kMicrosoftDomain,
     .op = "GatherBlockQuantized",
     .types = {{"T1", kernels::kQuantFloats | DataTypeSet{DataType::kInt4, DataType::kUint4, DataType::kUint8}},
               {"T2", kFloatTypesNoDouble},
               {"Tind", kIndexTypes}},
     .make = Make<GatherBlockQuantized>},
});

}  // namespace
}  // namespace cudaep::ops
