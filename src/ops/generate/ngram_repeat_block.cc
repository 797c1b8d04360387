// com.microsoft's NGramRepeatBlock.
#include <algorithm>

#include "kernels/generate/ngram.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

class NGramRepeatBlock final : public Operator {
 public:
  explicit NGramRepeatBlock(int64_t n) : n_(n) {}

  static Result<std::unique_ptr<NGramRepeatBlock>> Create(const OpInfo& info) {
    const int64_t n = info.IntOr("ngram_size", 0);
    if (n < 1) return InvalidArgument("ngram_size ", n, " is below 1");
    return std::make_unique<NGramRepeatBlock>(n);
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    const Dims ids = inputs[0].dims(), scores = inputs[1].dims();
    if (ids.size() != 2 || scores.size() != 2 || ids[0] != scores[0]) {
      return InvalidArgument("input_ids ", ids, " and scores ", scores, " must be rows of one batch");
    }
    outputs[0].Assign(scores);
    return Status::Ok();
  }

  Status Enqueue(const Plan&, const OpContext& context) const override {
    const Dims ids = context.inputs[0].dims();
    return kernels::LaunchNGramBlock({.batch = ids[0],
                                      .length = ids[1],
                                      .vocabulary = context.inputs[1].dim[1],
                                      .n = std::min(n_, ids[1] + 1),  // longer ones do not repeat
                                      .tokens = context.input<int64_t>(0),
                                      .scores = context.input<float>(1),
                                      .blocked = context.output<float>(0)},
                                     context.stream());
  }

 private:
  int64_t n_;
};

const RegisterRows kRows({
    {.domain = kMicrosoftDomain,
     .op = "NGramRepeatBlock",
     .types = {{"T", DataType::kFloat}, {"Tid", DataType::kInt64}},
     .in_place = {{1, 0}},
     .make = Make<NGramRepeatBlock>},
});

}  // namespace
}  // namespace cudaep::ops
