// ReduceSum, ReduceProd, ReduceMin, ReduceMax. The axes are an attribute at first and an input later.
#include "graph/shape/evaluation.h"
#include "ops/shape/axes.h"

namespace cudaep::graph {
namespace {

template <class F, class T>
T IdentityOf() {
  using Limits = std::numeric_limits<T>;
  if constexpr (std::is_same_v<F, Add>) return T(0);
  if constexpr (std::is_same_v<F, Mul>) return T(1);
  if constexpr (std::is_same_v<F, Min>) return Limits::has_infinity ? Limits::infinity() : Limits::max();
  if constexpr (std::is_same_v<F, Max>) return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
}

// `strides` are those of the output in the input, 0 along what is reduced.
using Function = void (*)(const ops::TensorView& x, const Shape& strides, ops::HostTensor& y);

template <class F, class T>
void Apply(const ops::TensorView& x, const Shape& strides, ops::HostTensor& y) {
  using Wide = std::conditional_t<std::is_floating_point_v<T>, double, T>;
  const auto elems = static_cast<size_t>(y.dims.elems());
  const auto results = std::make_unique<Wide[]>(elems);
  std::fill_n(results.get(), elems, IdentityOf<F, Wide>());
  const auto* const values = static_cast<const T*>(x.data);
  Walk<1>(x.dims(), {strides}, {0}, [&](int64_t i, const std::array<int64_t, 1>& at) {
    results[static_cast<size_t>(at[0])] = F{}(results[static_cast<size_t>(at[0])], static_cast<Wide>(values[i]));
  });
  std::transform(results.get(), results.get() + elems, reinterpret_cast<T*>(y.data.data()),
                 [](Wide value) { return static_cast<T>(value); });
}

class Reduction final : public CheckedOperator {
 public:
  Reduction(const ops::OpInfo& info, Function function, bool axes_input)
      : CheckedOperator(info, info.input_type(0)),
        function_(function),
        axes_(axes_input ? std::vector<int64_t>() : info.IntsOr("axes", {})),
        axes_input_(axes_input && info.has_input(1)),
        keep_dims_(info.BoolOr("keepdims", true)),
        none_means_all_(!axes_input || !info.BoolOr("noop_with_empty_axes", false)) {}

 private:
  Status InferShapes(ops::TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_ASSIGN_OR_RETURN(const std::vector<bool> reduced, Reduced(inputs));
    std::vector<int64_t> dims;
    for (size_t d = 0; d < reduced.size(); ++d) {
      if (keep_dims_ || !reduced[d]) dims.push_back(reduced[d] ? 1 : inputs[0].dim[d]);
    }
    outputs[0].Assign(dims);
    return Status::Ok();
  }

  Status Compute(ops::TensorViews inputs, std::vector<ops::HostTensor>& outputs) const override {
    CUDAEP_ASSIGN_OR_RETURN(const std::vector<bool> reduced, Reduced(inputs));
    Shape strides(inputs[0].rank, 0);
    int64_t stride = 1;
    for (int d = inputs[0].rank - 1; d >= 0; --d) {
      if (reduced[static_cast<size_t>(d)]) continue;
      strides[d] = stride;
      stride *= inputs[0].dim[d];
    }
    function_(inputs[0], strides, outputs[0]);
    return Status::Ok();
  }

  Result<std::vector<bool>> Reduced(ops::TensorViews inputs) const {
    std::vector<int64_t> axes = axes_;
    if (axes_input_) {
      CUDAEP_ASSIGN_OR_RETURN(axes, ops::HostInts(inputs[1], "axes"));
    }
    if (axes.empty()) return std::vector<bool>(static_cast<size_t>(inputs[0].rank), none_means_all_);
    return ops::MarkAxes(axes, inputs[0].rank, true);
  }

  Function function_;
  std::vector<int64_t> axes_;
  bool axes_input_, keep_dims_, none_means_all_;
};

template <class F, DataTypeSet types, int axes_input_since>
Result<HostOperatorPtr> Make(const ops::OpInfo& info) {
  const DataType type = info.input_type(0);
  const Function function =
      VisitType<types, Function>(type, nullptr, []<class T>() -> Function { return &Apply<F, T>; });
  if (function == nullptr) return NotSupported(info.op_type(), " has no element type ", DataTypeName(type));
  return HostOperatorPtr(std::make_unique<Reduction>(info, function, info.since_version() >= axes_input_since));
}

}  // namespace

HostEntries ReductionEntries() {
  static constexpr HostEntry kEntries[] = {
      {"ReduceMax", 1, 20, 1, Make<Max, kHostTypes, 18>},
      {"ReduceMin", 1, 20, 1, Make<Min, kHostTypes, 18>},
      {"ReduceProd", 1, 18, 1, Make<Mul, kHostNumbers, 18>},
      {"ReduceSum", 1, 13, 1, Make<Add, kHostNumbers, 13>},
  };
  return kEntries;
}

}  // namespace cudaep::graph
