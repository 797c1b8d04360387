// Operators whose values are not those of an input: Shape, Size, ConstantOfShape, Range.
#include <algorithm>
#include <cstring>

#include "graph/shape/evaluation.h"

namespace cudaep::graph {
namespace {

class ShapeOf final : public CheckedOperator {
 public:
  explicit ShapeOf(const ops::OpInfo& info)
      : CheckedOperator(info, DataType::kInt64),
        start_(info.since_version() < 15 ? 0 : info.IntOr("start", 0)),
        end_(info.since_version() < 15 ? INT64_MAX : info.IntOr("end", INT64_MAX)) {}

 private:
  Status InferShapes(ops::TensorViews inputs, std::vector<Shape>& outputs) const override {
    outputs[0] = Shape{static_cast<int64_t>(Part(inputs[0]).size())};
    return Status::Ok();
  }
  Status Compute(ops::TensorViews inputs, std::vector<ops::HostTensor>& outputs) const override {
    const Dims part = Part(inputs[0]);
    std::memcpy(outputs[0].data.data(), part.data(), part.size_bytes());
    return Status::Ok();
  }
  Dims Part(const ops::TensorView& input) const {
    const int64_t rank = input.rank;
    const auto clamp = [rank](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
    const int64_t first = clamp(start_), last = clamp(end_);
    return input.dims().subspan(static_cast<size_t>(first), static_cast<size_t>(std::max<int64_t>(last - first, 0)));
  }

  int64_t start_, end_;
};

class ElementCountOf final : public CheckedOperator {
 public:
  explicit ElementCountOf(const ops::OpInfo& info) : CheckedOperator(info, DataType::kInt64) {}

 private:
  Status InferShapes(ops::TensorViews, std::vector<Shape>& outputs) const override {
    outputs[0] = Shape{};
    return Status::Ok();
  }
  Status Compute(ops::TensorViews inputs, std::vector<ops::HostTensor>& outputs) const override {
    CUDAEP_ASSIGN_OR_RETURN(const int64_t elems, CheckedElementCount(inputs[0].dims()));
    std::memcpy(outputs[0].data.data(), &elems, sizeof(elems));
    return Status::Ok();
  }
};

class ConstantOfShape final : public CheckedOperator {
 public:
  ConstantOfShape(const ops::OpInfo& info, ops::OperatorPtr rule, DataType type, std::vector<std::byte> value)
      : CheckedOperator(info, type), rule_(std::move(rule)), value_(std::move(value)) {}

  // Without a value: a float 0.
  static Result<HostOperatorPtr> Create(const ops::OpInfo& info) {
    CUDAEP_ASSIGN_OR_RETURN(ops::OperatorPtr rule, MakeShapeRule(info));
    std::optional<ops::HostTensor> value = info.Tensor("value");
    if (!value) value = {.type = DataType::kFloat, .dims = Shape{1}, .data = std::vector<std::byte>(sizeof(float))};
    if (!kHostTypes.Contains(value->type)) {
      return NotSupported("ConstantOfShape of ", DataTypeName(value->type), " is not evaluated on the host");
    }
    if (value->data.size() != SizeOf(value->type)) return InvalidArgument("attribute value has no element");
    return HostOperatorPtr(
        std::make_unique<ConstantOfShape>(info, std::move(rule), value->type, std::move(value->data)));
  }

 private:
  Status InferShapes(ops::TensorViews inputs, std::vector<Shape>& outputs) const override {
    return rule_->InferShapes(inputs, outputs);
  }
  Status Compute(ops::TensorViews, std::vector<ops::HostTensor>& outputs) const override {
    std::vector<std::byte>& data = outputs[0].data;
    for (auto at = data.begin(); at != data.end(); at += static_cast<std::ptrdiff_t>(value_.size())) {
      std::copy(value_.begin(), value_.end(), at);
    }
    return Status::Ok();
  }

  ops::OperatorPtr rule_;
  std::vector<std::byte> value_;
};

class Range final : public CheckedOperator {
 public:
  Range(const ops::OpInfo& info, ops::OperatorPtr rule)
      : CheckedOperator(info, info.input_type(0)), rule_(std::move(rule)) {}

  static Result<HostOperatorPtr> Create(const ops::OpInfo& info) {
    for (int i = 0; i < 3; ++i) {
      if (info.input_type(i) != info.input_type(0) || info.input_type(i) == DataType::kBool) {
        return InvalidArgument("Range with ", DataTypeName(info.input_type(i)), " for input ", i);
      }
    }
    CUDAEP_ASSIGN_OR_RETURN(ops::OperatorPtr rule, MakeShapeRule(info));
    return HostOperatorPtr(std::make_unique<Range>(info, std::move(rule)));
  }

 private:
  Status InferShapes(ops::TensorViews inputs, std::vector<Shape>& outputs) const override {
    return rule_->InferShapes(inputs, outputs);
  }
  Status Compute(ops::TensorViews inputs, std::vector<ops::HostTensor>& outputs) const override {
    return VisitType<kHostNumbers>(inputs[0].type, Status(), [&]<class T>() {
      using Wide = std::conditional_t<std::is_floating_point_v<T>, double, Wrapping<T>>;
      const auto start = static_cast<Wide>(*static_cast<const T*>(inputs[0].data));
      const auto delta = static_cast<Wide>(*static_cast<const T*>(inputs[2].data));
      auto* const y = reinterpret_cast<T*>(outputs[0].data.data());
      for (int64_t i = 0; i < outputs[0].dims.elems(); ++i) y[i] = static_cast<T>(start + static_cast<Wide>(i) * delta);
      return Status::Ok();
    });
  }

  ops::OperatorPtr rule_;
};

template <class Op>
Result<HostOperatorPtr> Make(const ops::OpInfo& info) {
  return HostOperatorPtr(std::make_unique<Op>(info));
}

}  // namespace

HostEntries GeneratorEntries() {
  static constexpr HostEntry kEntries[] = {
      {"ConstantOfShape", 9, 25, 1, ConstantOfShape::Create},
      {"Range", 11, 27, 3, Range::Create},
      {"Shape", 1, 25, 1, Make<ShapeOf>},
      {"Size", 1, 25, 1, Make<ElementCountOf>},
  };
  return kEntries;
}

}  // namespace cudaep::graph
