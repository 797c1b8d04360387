// Operators that move elements. What their results look like is said by the operators of the device.
#include <cstring>
#include <numeric>
#include <utility>

#include "graph/shape/evaluation.h"
#include "kernels/movement/strided_copy.h"
#include "ops/movement/slice_ranges.h"
#include "ops/shape/host_ints.h"

namespace cudaep::graph {
namespace {

class Movement : public CheckedOperator {
 public:
  Movement(const ops::OpInfo& info, ops::OperatorPtr rule)
      : CheckedOperator(info, info.input_type(0)), rule_(std::move(rule)) {}

 protected:
  Status InferShapes(ops::TensorViews inputs, std::vector<Shape>& outputs) const final {
    return rule_->InferShapes(inputs, outputs);
  }
  // Elements [from, from + count) of x become those of y from `to` on.
  static void Copy(const ops::TensorView& x, int64_t from, ops::HostTensor& y, int64_t to, int64_t count) {
    const size_t size = SizeOf(y.type);
    std::memcpy(y.data.data() + static_cast<size_t>(to) * size,
                static_cast<const std::byte*>(x.data) + static_cast<size_t>(from) * size,
                static_cast<size_t>(count) * size);
  }

 private:
  ops::OperatorPtr rule_;
};

// Identity, Reshape, Squeeze, Unsqueeze: the elements stay in order.
class SameElements final : public Movement {
 public:
  using Movement::Movement;

 private:
  Status Compute(ops::TensorViews inputs, std::vector<ops::HostTensor>& outputs) const override {
    Copy(inputs[0], 0, outputs[0], 0, outputs[0].dims.elems());
    return Status::Ok();
  }
};

// What is read from the input at constant strides, in the output's order.
struct StridedView {
  Shape dims, strides;
  int64_t offset = 0;
};

class Strided : public Movement {
 public:
  using Movement::Movement;

 protected:
  virtual Result<StridedView> View(ops::TensorViews inputs, const Shape& output) const = 0;

 private:
  Status Compute(ops::TensorViews inputs, std::vector<ops::HostTensor>& outputs) const final {
    CUDAEP_ASSIGN_OR_RETURN(const StridedView view, View(inputs, outputs[0].dims));
    Walk<1>(view.dims, {view.strides}, {view.offset},
            [&](int64_t i, const std::array<int64_t, 1>& at) { Copy(inputs[0], at[0], outputs[0], i, 1); });
    return Status::Ok();
  }
};

class Expand final : public Strided {
 public:
  using Strided::Strided;

 private:
  Result<StridedView> View(ops::TensorViews inputs, const Shape& output) const override {
    return StridedView{output, BroadcastStrides(inputs[0].dims(), output)};
  }
};

class Transpose final : public Strided {
 public:
  Transpose(const ops::OpInfo& info, ops::OperatorPtr rule)
      : Strided(info, std::move(rule)), perm_(info.Ints("perm")) {}

 private:
  Result<StridedView> View(ops::TensorViews inputs, const Shape& output) const override {
    const Shape strides = ContiguousStrides(inputs[0].dims());
    StridedView view{output, strides};
    for (int d = 0, last = output.rank() - 1; d <= last; ++d) {
      view.strides[d] = strides[perm_ ? static_cast<int>((*perm_)[static_cast<size_t>(d)]) : last - d];
    }
    return view;
  }

  std::optional<std::vector<int64_t>> perm_;
};

class Slice final : public Strided {
 public:
  Slice(const ops::OpInfo& info, ops::OperatorPtr rule) : Strided(info, std::move(rule)), bounds_(info) {}

 private:
  Result<StridedView> View(ops::TensorViews inputs, const Shape& output) const override {
    CUDAEP_ASSIGN_OR_RETURN(const std::vector<ops::SliceRange> ranges, bounds_.Read(inputs));
    StridedView view{output, ContiguousStrides(inputs[0].dims())};
    view.offset = ops::ApplyRanges(ranges, view.strides);
    return view;
  }

  ops::SliceBounds bounds_;
};

// Each dimension is a pair: the repeats, which do not move in the input, around the input's dimension.
class Tile final : public Strided {
 public:
  using Strided::Strided;

 private:
  Result<StridedView> View(ops::TensorViews inputs, const Shape& output) const override {
    const Shape strides = ContiguousStrides(inputs[0].dims());
    StridedView view{Shape(2 * output.rank(), 0), Shape(2 * output.rank(), 0)};
    for (int d = 0; d < output.rank(); ++d) {
      view.dims[2 * d] = output[d] / inputs[0].dim[d];
      view.dims[2 * d + 1] = inputs[0].dim[d];
      view.strides[2 * d + 1] = strides[d];
    }
    return view;
  }
};

// Concat and Split: slices of the whole along an axis are the parts' one after another.
class Segmented final : public Movement {
 public:
  Segmented(const ops::OpInfo& info, ops::OperatorPtr rule)
      : Movement(info, std::move(rule)), joins_(info.op_type() == "Concat"), axis_(info.IntOr("axis", 0)) {}

 private:
  Status Compute(ops::TensorViews inputs, std::vector<ops::HostTensor>& outputs) const override {
    CUDAEP_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(axis_, inputs[0].rank));
    const auto begin = static_cast<size_t>(axis);
    const Dims whole = joins_ ? outputs[0].dims.dims() : inputs[0].dims();
    const int64_t rows = ElementCount(whole.first(begin)), row = ElementCount(whole.subspan(begin));
    int64_t at = 0;
    for (size_t i = 0; i < (joins_ ? inputs.size() : outputs.size()); ++i) {
      const Dims part = joins_ ? inputs[i].dims() : outputs[i].dims.dims();
      const int64_t run = ElementCount(part.subspan(begin));
      for (int64_t r = 0; r < rows && run > 0; ++r) {
        if (joins_) {
          Copy(inputs[i], r * run, outputs[0], r * row + at, run);
        } else {
          Copy(inputs[0], r * row + at, outputs[i], r * run, run);
        }
      }
      at += run;
    }
    return Status::Ok();
  }

  bool joins_;
  int64_t axis_;
};

class Gather final : public Movement {
 public:
  Gather(const ops::OpInfo& info, ops::OperatorPtr rule)
      : Movement(info, std::move(rule)), axis_(info.IntOr("axis", 0)) {}

 private:
  Status Compute(ops::TensorViews inputs, std::vector<ops::HostTensor>& outputs) const override {
    const ops::TensorView& data = inputs[0];
    CUDAEP_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(axis_, data.rank));
    const auto begin = static_cast<size_t>(axis);
    const int64_t dim = data.dim[axis], count = inputs[1].elems();
    ops::TensorView list = inputs[1];
    list.dim = &count;
    list.rank = 1;
    CUDAEP_ASSIGN_OR_RETURN(const std::vector<int64_t> indices, ops::HostInts(list, "indices"));
    const int64_t rows = ElementCount(data.dims().first(begin)), run = ElementCount(data.dims().subspan(begin + 1));
    int64_t to = 0;
    for (int64_t r = 0; r < rows; ++r) {
      for (const int64_t index : indices) {
        if (index < -dim || index >= dim) {
          return InvalidArgument("index ", index, " is outside of axis ", axis, " of shape ", data.dims());
        }
        Copy(data, (r * dim + (index < 0 ? index + dim : index)) * run, outputs[0], to, run);
        to += run;
      }
    }
    return Status::Ok();
  }

  int64_t axis_;
};

template <class Op>
Result<HostOperatorPtr> Make(const ops::OpInfo& info) {
  CUDAEP_ASSIGN_OR_RETURN(ops::OperatorPtr rule, MakeShapeRule(info));
  return HostOperatorPtr(std::make_unique<Op>(info, std::move(rule)));
}

}  // namespace

HostEntries MovementEntries() {
  static constexpr HostEntry kEntries[] = {
      {"Concat", 4, 13, 1, Make<Segmented>},
      {"Expand", 8, 13, 2, Make<Expand>},
      {"Gather", 1, 13, 2, Make<Gather>},
      {"Identity", 1, 25, 1, Make<SameElements>},
      {"Reshape", 5, 25, 2, Make<SameElements>},
      {"Slice", 1, 1, 1, Make<Slice>},
      {"Slice", 10, 13, 3, Make<Slice>},
      {"Split", 2, 18, 1, Make<Segmented>},
      {"Squeeze", 1, 25, 1, Make<SameElements>},
      {"Tile", 6, 13, 2, Make<Tile>},
      {"Transpose", 1, 25, 1, Make<Transpose>},
      {"Unsqueeze", 1, 11, 1, Make<SameElements>},
      {"Unsqueeze", 13, 25, 2, Make<SameElements>},
  };
  return kEntries;
}

}  // namespace cudaep::graph
