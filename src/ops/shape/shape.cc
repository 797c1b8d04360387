// Shape and Size: what they say about a tensor is known on the host, which writes it there; nothing is launched.
#include "kernels/common/narrow_types.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

class ShapeOf final : public Operator {
 public:
  ShapeOf(int64_t start, int64_t end) : start_(start), end_(end) {}

  static Result<std::unique_ptr<ShapeOf>> Create(const OpInfo& info) {
    if (info.since_version() < 15) return std::make_unique<ShapeOf>(0, INT64_MAX);
    return std::make_unique<ShapeOf>(info.IntOr("start", 0), info.IntOr("end", INT64_MAX));
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    outputs[0] = Shape{static_cast<int64_t>(Part(inputs[0]).size())};
    return Status::Ok();
  }

  Status Enqueue(const Plan&, const OpContext& context) const override {
    const Dims part = Part(context.inputs[0]);
    std::copy(part.begin(), part.end(), context.output<int64_t>(0));
    return Status::Ok();
  }

 private:
  Dims Part(const TensorView& input) const {
    const int64_t rank = input.rank;
    const auto clamp = [rank](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
    const int64_t first = clamp(start_), last = clamp(end_);
    return input.dims().subspan(static_cast<size_t>(first), static_cast<size_t>(std::max<int64_t>(last - first, 0)));
  }

  int64_t start_, end_;
};

class SizeOf final : public Operator {
 public:
  static Result<std::unique_ptr<SizeOf>> Create(const OpInfo&) { return std::make_unique<SizeOf>(); }

  Status InferShapes(TensorViews, std::vector<Shape>& outputs) const override {
    outputs[0] = Shape{};
    return Status::Ok();
  }

  Status Enqueue(const Plan&, const OpContext& context) const override {
    *context.output<int64_t>(0) = context.inputs[0].elems();
    return Status::Ok();
  }
};

KernelRow HostRow(const char* op, OperatorFactory make) {
  return {.op = op,
          .since = 1,
          .until = 25,
          .types = {{"T", kernels::kStoredTypes}, {"T1", DataType::kInt64}},
          .host_outputs = {0},
          .make = make};
}

const RegisterRows kRows({
    HostRow("Shape", Make<ShapeOf>),
    HostRow("Size", Make<SizeOf>),
});

}  // namespace
}  // namespace cudaep::ops
