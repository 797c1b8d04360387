// com.microsoft's MRotaryEmbedding and GemmaRotaryEmbedding. A position outside of the caches gives zeros: the device
// cannot refuse a value.
#include "kernels/attention/position_rotary.h"

#include "ops/registry.h"

namespace cudaep::ops {
namespace {

class MRotaryEmbedding final : public Operator {
 public:
  static Result<std::unique_ptr<MRotaryEmbedding>> Create(const OpInfo& info) {
    auto op = std::make_unique<MRotaryEmbedding>();
    const std::vector<int64_t> section = info.IntsOr("mrope_section", {});
    const int64_t layout = info.IntOr("mrope_layout", 0);
    op->rotary_.type = info.input_type(0);
    op->rotary_.interleaved = info.BoolOr("interleaved", false);
    op->rotary_.alternating = layout == 1;
    op->rotary_.scale = info.FloatOr("scale", 1);
    op->heads_ = info.IntOr("num_heads", 0);
    op->dim_ = info.IntOr("rotary_embedding_dim", 0);
    if (layout != 0 && layout != 1) return InvalidArgument("mrope_layout ", layout, " must be 0 or 1");
    if (section.size() != 3 || std::min({section[0], section[1], section[2]}) < 0) {
      return InvalidArgument("mrope_section ", Dims(section), " must be three numbers, none negative");
    }
    std::copy(section.begin(), section.end(), op->rotary_.section);
    if (op->heads_ < 0) return InvalidArgument("num_heads ", op->heads_, " is negative");
    if (op->dim_ < 0 || op->dim_ % 2 != 0) return InvalidArgument("rotary_embedding_dim ", op->dim_, " is not even");
    if (op->dim_ != 0 && op->heads_ == 0) return InvalidArgument("rotary_embedding_dim needs num_heads");
    return op;
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_RETURN_IF_ERROR(Problem(inputs).status());
    outputs[0].Assign(inputs[0].dims());
    return Status::Ok();
  }

  Status Enqueue(const Plan&, const OpContext& context) const override {
    CUDAEP_ASSIGN_OR_RETURN(const kernels::SectionRotary rotary, Problem(context.inputs));
    return kernels::LaunchSectionRotary(rotary, context.input(0), context.input<int64_t>(1), context.input(2),
                                        context.input(3), context.output(0), context.stream());
  }

 private:
  Result<kernels::SectionRotary> Problem(TensorViews inputs) const {
    kernels::SectionRotary p = rotary_;
    const Dims x = inputs[0].dims(), ids = inputs[1].dims(), cos = inputs[2].dims(), sin = inputs[3].dims();
    if (x.size() != 3 && x.size() != 4) return InvalidArgument("input ", x, " must have 3 or 4 dimensions");
    p.batch = x[0];
    if (x.size() == 4) {
      p.heads = x[1], p.rows = x[2], p.size = x[3];
      p.head_stride = p.rows * p.size, p.row_stride = p.size;
    } else {
      if (heads_ == 0 || x[2] % heads_ != 0) {
        return InvalidArgument("num_heads ", heads_, " does not divide a hidden size of ", x[2]);
      }
      p.heads = heads_, p.rows = x[1], p.size = x[2] / heads_;
      p.head_stride = p.size, p.row_stride = x[2];
    }
    p.entry_stride = p.heads * p.rows * p.size;
    p.dim = dim_ != 0 ? dim_ : p.size;
    if (p.dim % 2 != 0 || p.dim > p.size) {
      return InvalidArgument("of heads of ", p.size, " elements ", p.dim, " cannot be rotated");
    }
    if (!SameDims(cos, sin) || cos.size() != 2 || cos[1] * 2 != p.dim) {
      return InvalidArgument("cos_cache ", cos, " and sin_cache ", sin, " must have rows of ", p.dim / 2, " elements");
    }
    p.cache_rows = cos[0];
    if (p.section[0] + p.section[1] + p.section[2] != p.dim / 2) {
      return InvalidArgument("mrope_section ", Dims(p.section, 3), " must add up to ", p.dim / 2);
    }
    if (!SameDims(ids, Shape{3, p.batch, p.rows})) {
      return InvalidArgument("position_ids ", ids, " must be [3,", p.batch, ",", p.rows, "]");
    }
    return p;
  }

  kernels::SectionRotary rotary_;  // what attributes and types say
  int64_t heads_ = 0, dim_ = 0;
};

class GemmaRotaryEmbedding final : public Operator {
 public:
  static Result<std::unique_ptr<GemmaRotaryEmbedding>> Create(const OpInfo&) {
    return std::make_unique<GemmaRotaryEmbedding>();
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    const Dims angles = inputs[0].dims();
    for (size_t tensor = 0; tensor < 2; ++tensor) {
      const Dims x = inputs[1 + 2 * tensor].dims(), rotated = inputs[2 + 2 * tensor].dims();
      if (angles.size() != 3 || x.size() != 4 || !SameDims(x, rotated) || !SameDims(angles, Shape{x[0], x[2], x[3]})) {
        return InvalidArgument("states ", x, " and rotated ", rotated, " must be heads of emb ", angles);
      }
      if (tensor < outputs.size()) outputs[tensor].Assign(x);
    }
    return Status::Ok();
  }

  Status Enqueue(const Plan&, const OpContext& context) const override {
    const Dims angles = context.inputs[0].dims();
    kernels::AngleRotary rotary{
        .batch = angles[0], .rows = angles[1], .size = angles[2], .angles = context.input<float>(0)};
    for (int tensor = 0; tensor < static_cast<int>(context.shapes.size()); ++tensor) {
      rotary.heads[tensor] = context.inputs[static_cast<size_t>(tensor) * 2 + 1].dim[1];
      rotary.x[tensor] = context.input(1 + 2 * tensor);
      rotary.rotated[tensor] = context.input(2 + 2 * tensor);
      rotary.out[tensor] = context.output(tensor);
    }
    return kernels::LaunchAngleRotary(rotary, context.stream());
  }
};

const RegisterRows kRows({
    {.domain = kMicrosoftDomain,
     .op = "MRotaryEmbedding",
     .types = {{"T", kFloatTypesNoDouble}, {"M", DataType::kInt64}},
     .in_place = {{0, 0}},
     .make = Make<MRotaryEmbedding>},
    {.domain = kMicrosoftDomain,
     .op = "GemmaRotaryEmbedding",
     .types = {{"T", DataType::kFloat16}, {"U", DataType::kFloat}},
     .in_place = {{1, 0}, {2, 0}, {3, 1}, {4, 1}},
     .make = Make<GemmaRotaryEmbedding>},
});

}  // namespace
}  // namespace cudaep::ops
