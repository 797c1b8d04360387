// RotaryEmbedding of ONNX, whose caches may hold a row for each position of the batch, and com.microsoft's, whose
// position ids may be one offset. A position outside of the caches gives zeros: the device cannot refuse a value.
// Compiled regions have one of their own, for caches as models compute them (rotary_caches.h) and 4 dimensions.
#include "ops/attention/attention_step.h"
#include "ops/attention/rotary_caches.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

// Where the two operators have their inputs.
struct Inputs {
  int ids, cos, sin;
};
constexpr Inputs kOnnxInputs{.ids = 3, .cos = 1, .sin = 2};
constexpr Inputs kMicrosoftInputs{.ids = 1, .cos = 2, .sin = 3};

class RotaryEmbedding final : public Operator {
 public:
  static Result<std::unique_ptr<RotaryEmbedding>> Create(const OpInfo& info) {
    auto op = std::make_unique<RotaryEmbedding>();
    op->microsoft_ = info.domain() == kMicrosoftDomain;
    op->fused_ = info.domain() == kFusedDomain;
    op->inputs_ = op->microsoft_ ? kMicrosoftInputs : kOnnxInputs;
    op->type_ = info.input_type(0);
    op->heads_ = info.IntOr("num_heads", 0);
    op->dim_ = info.IntOr("rotary_embedding_dim", 0);
    op->interleaved_ = info.BoolOr("interleaved", false);
    if (op->heads_ < 0) return InvalidArgument("num_heads ", op->heads_, " is negative");
    if (op->dim_ < 0 || op->dim_ % 2 != 0) return InvalidArgument("rotary_embedding_dim ", op->dim_, " is not even");
    if (op->microsoft_ && op->dim_ != 0 && op->heads_ == 0) {
      return InvalidArgument("rotary_embedding_dim needs num_heads");
    }
    return op;
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_RETURN_IF_ERROR(Rows(inputs).status());
    outputs[0].Assign(inputs[0].dims());
    return Status::Ok();
  }

  // Lengths are for the launch alone.
  bool MakePlanKey(TensorViews, PlanKey&) const override { return true; }

  Status Enqueue(const Plan&, const OpContext& context) const override {
    CUDAEP_ASSIGN_OR_RETURN(const kernels::HeadRows rows, Rows(context.inputs));
    return kernels::LaunchHeadRows(rows,
                                   {.in = context.input(0),
                                    .out = context.output(0),
                                    .cos = context.input(inputs_.cos),
                                    .sin = context.input(inputs_.sin),
                                    .position_ids = rows.rotary.ids ? context.input<int64_t>(inputs_.ids) : nullptr},
                                   context.stream());
  }

 private:
  Result<kernels::HeadRows> Rows(TensorViews inputs) const {
    const Dims x = inputs[0].dims();
    const Dims cos = inputs[static_cast<size_t>(inputs_.cos)].dims();
    const Dims sin = inputs[static_cast<size_t>(inputs_.sin)].dims();
    if (fused_) return ComputedRows(x, cos, sin);
    if (x.size() != 3 && x.size() != 4) return InvalidArgument("input ", x, " must have 3 or 4 dimensions");
    if (!SameDims(cos, sin) || (cos.size() != 2 && cos.size() != 3)) {
      return InvalidArgument("cos_cache ", cos, " and sin_cache ", sin, " must have the same 2 or 3 dimensions");
    }
    kernels::HeadRows rows{.type = type_, .batch = x[0]};
    if (x.size() == 4) {
      rows.heads = x[1], rows.rows = x[2], rows.size = x[3];
      rows.in = HeadsFirst(rows.heads, rows.rows, rows.size);
    } else {
      CUDAEP_ASSIGN_OR_RETURN(rows.heads, HeadsOf(x[2], cos.back()));
      rows.rows = x[1], rows.size = x[2] / rows.heads;
      rows.in = RowsFirst(rows.heads, rows.rows, rows.size);
    }
    rows.new_rows = rows.rows;
    rows.out = rows.in;
    kernels::Rotary& rotary = rows.rotary;
    rotary.dim = dim_ != 0 ? dim_ : rows.size;
    rotary.interleaved = interleaved_;
    if (rotary.dim % 2 != 0 || rotary.dim > rows.size) {
      return InvalidArgument("of heads of ", rows.size, " elements ", rotary.dim, " cannot be rotated");
    }
    if (cos.back() * 2 != rotary.dim) {
      return InvalidArgument("rows of cos_cache ", cos, " must have ", rotary.dim / 2, " elements");
    }
    CUDAEP_RETURN_IF_ERROR(PlacePositions(inputs, cos, rows));
    return rows;
  }

  Result<kernels::HeadRows> ComputedRows(Dims x, Dims cos, Dims sin) const {
    if (x.size() != 4) return InvalidArgument("input ", x, " must have 4 dimensions");
    const bool heads_first = IsCacheOf(cos, CacheForm::kHeadsFirst, x[0], x[2]);
    kernels::HeadRows rows{.type = type_, .batch = x[0]};
    rows.heads = x[heads_first ? 1 : 2], rows.rows = rows.new_rows = x[heads_first ? 2 : 1], rows.size = x[3];
    rows.in = rows.out =
        heads_first ? HeadsFirst(rows.heads, rows.rows, rows.size) : RowsFirst(rows.heads, rows.rows, rows.size);
    CUDAEP_ASSIGN_OR_RETURN(rows.rotary, RotaryOf(cos, sin, rows.batch, rows.rows, rows.size));
    rows.rotary.interleaved = interleaved_;
    return rows;
  }

  // Of com.microsoft's, without num_heads, heads are as large as the caches' rows say.
  Result<int64_t> HeadsOf(int64_t hidden, int64_t half) const {
    int64_t heads = heads_;
    if (heads == 0 && microsoft_ && half > 0) heads = hidden / (2 * half);
    if (heads > 0 && hidden % heads == 0) return heads;
    return InvalidArgument("num_heads ", heads_, " does not divide a hidden size of ", hidden);
  }

  Status PlacePositions(TensorViews inputs, Dims cos, kernels::HeadRows& rows) const {
    kernels::Rotary& rotary = rows.rotary;
    const auto index = static_cast<size_t>(inputs_.ids);
    rotary.ids = index < inputs.size() && inputs[index].present();
    if (!rotary.ids) {
      if (!SameDims(cos.first(cos.size() - 1), Shape{rows.batch, rows.rows})) {
        return InvalidArgument("cos_cache ", cos, " without position_ids must have a row for each of [", rows.batch,
                               ",", rows.rows, "]");
      }
      rotary.cache_rows = rows.batch * rows.rows;
      rotary.cache_batch_rows = rows.rows;
      return Status::Ok();
    }
    const Dims ids = inputs[index].dims();
    if (cos.size() != 2) return InvalidArgument("cos_cache ", cos, " with position_ids must have 2 dimensions");
    rotary.cache_rows = cos[0];
    rotary.ids_batch_stride = rows.rows;
    rotary.offset_ids = microsoft_ && ids.size() == 1 && ids[0] == 1;
    if (!rotary.offset_ids && !SameDims(ids, Shape{rows.batch, rows.rows})) {
      return InvalidArgument("position_ids ", ids, " must be [", rows.batch, ",", rows.rows, "]");
    }
    return Status::Ok();
  }

  Inputs inputs_ = kOnnxInputs;
  DataType type_ = DataType::kFloat;
  bool microsoft_ = false, fused_ = false, interleaved_ = false;
  int64_t heads_ = 0, dim_ = 0;
};

const RegisterRows kRows({
    {.op = "RotaryEmbedding",
     .since = 23,
     .until = 23,
     .types = {{"T", kFloatTypesNoDouble}, {"M", DataType::kInt64}},
     .in_place = {{0, 0}},
     .make = Make<RotaryEmbedding>},
    {.domain = kMicrosoftDomain,
     .op = "RotaryEmbedding",
     .types = {{"T", kFloatTypesNoDouble}, {"M", DataType::kInt64}},
     .in_place = {{0, 0}},
     .make = Make<RotaryEmbedding>},
    {.domain = kFusedDomain,
     .op = "RotaryEmbedding",
     .types = {{"T", kFloatTypesNoDouble}},
     .in_place = {{0, 0}},
     .make = Make<RotaryEmbedding>},
});

}  // namespace
}  // namespace cudaep::ops
