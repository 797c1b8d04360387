// com.microsoft's RelativePositionBias and GatedRelativePositionBias.
#include "kernels/attention/relative_bias.h"

#include <cmath>

#include "ops/optional_input.h"
#include "ops/registry.h"
#include "ops/shape/host_ints.h"

namespace cudaep::ops {
namespace {

// Its table has the dimensions [buckets, heads], but lies in memory as [heads, buckets].
class RelativePositionBias final : public Operator {
 public:
  static Result<std::unique_ptr<RelativePositionBias>> Create(const OpInfo& info) {
    auto op = std::make_unique<RelativePositionBias>();
    op->max_distance_ = info.IntOr("max_distance", 0);
    op->bias_.type = info.input_type(0);
    op->bias_.bidirectional = info.BoolOr("is_bidirectional", false);
    if (op->max_distance_ <= 0) return InvalidArgument("max_distance ", op->max_distance_, " must be positive");
    return op;
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_ASSIGN_OR_RETURN(const kernels::RelativeBias bias, Problem(inputs));
    outputs[0] = Shape{1, bias.heads, bias.queries, bias.keys};
    return Status::Ok();
  }

  Status Enqueue(const Plan&, const OpContext& context) const override {
    CUDAEP_ASSIGN_OR_RETURN(const kernels::RelativeBias bias, Problem(context.inputs));
    return kernels::LaunchRelativeBias(bias, context.input(0), context.output(0), context.stream());
  }

 private:
  static Result<int64_t> Length(const TensorView& input, std::string_view name) {
    CUDAEP_ASSIGN_OR_RETURN(const std::vector<int64_t> values, HostInts(input, name));
    if (values.size() != 1 || values[0] < 0) return InvalidArgument(name, " ", Dims(values), " is no length");
    return values[0];
  }

  Result<kernels::RelativeBias> Problem(TensorViews inputs) const {
    kernels::RelativeBias p = bias_;
    const Dims table = inputs[0].dims();
    const int64_t sides = p.bidirectional ? 2 : 1;
    if (table.size() != 2 || table[0] % sides != 0 || table[0] / sides < 2) {
      return InvalidArgument("bias_table ", table, " must be [buckets,heads] with ",
                             p.bidirectional ? "4 or more" : "2",
                             p.bidirectional ? " buckets, an even number" : " or more buckets");
    }
    p.buckets = table[0] / sides;
    p.heads = table[1];
    const int64_t exact = p.buckets / 2;
    if (max_distance_ <= exact) {
      return InvalidArgument("max_distance ", max_distance_, " must be more than the ", exact,
                             " distances that have buckets of their own");
    }
    p.range = static_cast<float>(std::log(static_cast<double>(max_distance_) / static_cast<double>(exact)));
    CUDAEP_ASSIGN_OR_RETURN(p.queries, Length(inputs[1], "query_length"));
    CUDAEP_ASSIGN_OR_RETURN(p.keys, Length(inputs[2], "key_length"));
    return p;
  }

  kernels::RelativeBias bias_;  // what attributes and types say
  int64_t max_distance_ = 0;
};

class GatedRelativePositionBias final : public Operator {
 public:
  enum Input : int { kQuery, kQueryBias, kRelPos, kWeight, kBias, kEcoA, kTokenOffset };

  GatedRelativePositionBias(DataType type, int64_t heads) : type_(type), heads_(heads) {}

  static Result<std::unique_ptr<GatedRelativePositionBias>> Create(const OpInfo& info) {
    const int64_t heads = info.IntOr("num_heads", 0);
    if (heads <= 0) return InvalidArgument("num_heads ", heads, " must be positive");
    return std::make_unique<GatedRelativePositionBias>(info.input_type(kQuery), heads);
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_ASSIGN_OR_RETURN(const kernels::GatedBias p, Problem(inputs));
    outputs[0] = Shape{p.batch, p.heads, p.steps, p.steps};
    return Status::Ok();
  }

  Status Enqueue(const Plan&, const OpContext& context) const override {
    CUDAEP_ASSIGN_OR_RETURN(kernels::GatedBias p, Problem(context.inputs));
    p.query = context.input(kQuery);
    p.query_bias = context.input(kQueryBias);
    p.rel_pos = context.input(kRelPos);
    p.weight = context.input(kWeight);
    p.bias = context.input(kBias);
    p.eco_a = context.input(kEcoA);
    p.token_offset = static_cast<const int32_t*>(InputAt(context.inputs, kTokenOffset).data);
    p.out = context.output(0);
    return kernels::LaunchGatedBias(p, context.stream());
  }

 private:
  Result<kernels::GatedBias> Problem(TensorViews inputs) const {
    kernels::GatedBias p{.type = type_, .heads = heads_};
    const Dims query = inputs[kQuery].dims(), weight = inputs[kWeight].dims();
    const bool is_packed = HasInput(inputs, kTokenOffset);
    if (query.size() != (is_packed ? 2 : 3)) {
      return InvalidArgument("query_layer ", query, " must have ", is_packed ? 2 : 3, " dimensions ",
                             is_packed ? "with" : "without", " token_offset");
    }
    const Dims places = is_packed ? inputs[kTokenOffset].dims() : query.first(2);
    if (places.size() != 2) return InvalidArgument("token_offset ", places, " must be [batch,steps]");
    p.batch = places[0], p.steps = places[1];
    p.tokens = is_packed ? query[0] : p.batch * p.steps;
    if (p.tokens > p.batch * p.steps) {
      return InvalidArgument("query_layer ", query, " has more tokens than token_offset ", places);
    }
    const int64_t hidden = query.last(1)[0];
    if (hidden % heads_ != 0) return InvalidArgument("num_heads ", heads_, " does not divide ", hidden);
    p.size = hidden / heads_;
    if (weight.size() != 2 || weight[0] != p.size || weight[1] % 2 != 0 || weight[1] > INT32_MAX) {
      return InvalidArgument("weight ", weight, " must be [", p.size, ", an even number]");
    }
    p.columns = static_cast<int32_t>(weight[1]);
    struct Expected {
      Input input;
      const char* name;
      Shape shape;
    };
    const Expected all[] = {{kQueryBias, "query_bias", Shape{hidden}},
                            {kRelPos, "rel_pos", Shape{1, heads_, p.steps, p.steps}},
                            {kBias, "bias", Shape{weight[1]}},
                            {kEcoA, "eco_a", Shape{1, heads_, 1, 1}}};
    for (const Expected& expected : all) {
      const Dims dims = inputs[expected.input].dims();
      if (!SameDims(dims, expected.shape)) {
        return InvalidArgument(expected.name, " ", dims, " must be ", expected.shape);
      }
    }
    return p;
  }

  DataType type_;
  int64_t heads_;
};

const RegisterRows kRows({
    {.domain = kMicrosoftDomain,
     .op = "RelativePositionBias",
     .types = {{"T", kernels::kRelativeBiasTypes}, {"U", DataType::kInt64}},
     .host_inputs = {1, 2},
     .make = Make<RelativePositionBias>},
    {.domain = kMicrosoftDomain,
     .op = "GatedRelativePositionBias",
     .types = {{"T", kernels::kRelativeBiasTypes}, {"M", DataType::kInt32}},
     .make = Make<GatedRelativePositionBias>},
});

}  // namespace
}  // namespace cudaep::ops
