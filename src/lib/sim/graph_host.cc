#include "lib/sim/graph_host.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/float16.h"
#include "lib/sim/host_activation.h"

namespace cudaep::sim {
namespace {

using dnn::GraphOp;
using dnn::GraphTensor;
using dnn::OpGraph;
using dnn::OpKind;
using dnn::PointwiseMode;
using dnn::ReductionMode;
using dnn::TensorIndex;

// Calls f with a pointer of the tensor's element type.
template <class F>
void WithType(DataType type, F&& f) {
  switch (type) {
    case DataType::kFloat16:
      return f(static_cast<Half*>(nullptr));
    case DataType::kBFloat16:
      return f(static_cast<BFloat16*>(nullptr));
    case DataType::kDouble:
      return f(static_cast<double*>(nullptr));
    case DataType::kInt32:
      return f(static_cast<int32_t*>(nullptr));
    case DataType::kInt8:
      return f(static_cast<int8_t*>(nullptr));
    default:
      return f(static_cast<float*>(nullptr));
  }
}

// Counts through `dims`, innermost fastest.
bool Advance(const Shape& dims, Shape* at) {
  for (int d = dims.rank() - 1; d >= 0; --d) {
    if (++(*at)[d] < dims[d]) return true;
    (*at)[d] = 0;
  }
  return false;
}

template <class F>
void ForEach(const Shape& dims, F&& f) {
  Shape at(dims.rank(), 0);
  do f(at);
  while (Advance(dims, &at));
}

constexpr double kHidden = -std::numeric_limits<double>::infinity();

double Evaluate(PointwiseMode mode, double a, double b) {
  switch (mode) {
    case PointwiseMode::kAdd:
      return a + b;
    case PointwiseMode::kSub:
      return a - b;
    case PointwiseMode::kMul:
      return a * b;
    case PointwiseMode::kDiv:
      return a / b;
    case PointwiseMode::kMax:
      return a > b || a != a ? a : b;
    case PointwiseMode::kMin:
      return a < b || a != a ? a : b;
    case PointwiseMode::kGreaterEqual:
      return a >= b ? 1 : 0;
    case PointwiseMode::kIdentity:
      return a;
    case PointwiseMode::kExp:
      return std::exp(a);
    case PointwiseMode::kLog:
      return std::log(a);
    case PointwiseMode::kRsqrt:
      return 1 / std::sqrt(a);
    case PointwiseMode::kGeluErf:
      return Activate(Activation::kGeluErf, a);
    case PointwiseMode::kGeluTanh:
      return Activate(Activation::kGeluTanh, a);
    case PointwiseMode::kSigmoid:
      return Activate(Activation::kSigmoid, a);
    case PointwiseMode::kSilu:
      return Activate(Activation::kSilu, a);
    case PointwiseMode::kTanh:
      return std::tanh(a);
    case PointwiseMode::kIndex:
    case PointwiseMode::kRelu:
    case PointwiseMode::kSelect:
      break;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

class Interpreter {
 public:
  Interpreter(const OpGraph& graph, std::span<void* const> addresses) : graph_(graph), values_(graph.tensors.size()) {
    for (size_t i = 0; i < values_.size(); ++i) ReadTensor(i, addresses[i]);
  }

  void Run(std::span<void* const> addresses) {
    for (const GraphOp& op : graph_.ops) {
      Compute(op);
      const auto index = static_cast<size_t>(op.result);
      Round(index);
      if (addresses[index] != nullptr) WriteTensor(index, addresses[index]);
    }
  }

 private:
  // Dense values by position; a dimension of 1 repeats.
  double ValueAt(TensorIndex index, const Shape& at) const {
    const Shape& dims = graph_.at(index).dims;
    int64_t flat = 0;
    for (int d = 0; d < dims.rank(); ++d) flat = flat * dims[d] + (dims[d] == 1 ? 0 : at[d]);
    return values_[static_cast<size_t>(index)][static_cast<size_t>(flat)];
  }

  static int64_t OffsetOf(const GraphTensor& tensor, const Shape& at) {
    int64_t offset = 0;
    for (int d = 0; d < at.rank(); ++d) offset += at[d] * tensor.strides[d];
    return offset;
  }

  void ReadTensor(size_t index, const void* address) {
    const GraphTensor& tensor = graph_.tensors[index];
    auto& values = values_[index];
    values.resize(static_cast<size_t>(tensor.dims.elems()));
    if (tensor.scalar) values[0] = *tensor.scalar;
    const bool made = std::any_of(graph_.ops.begin(), graph_.ops.end(),
                                  [&](const GraphOp& op) { return static_cast<size_t>(op.result) == index; });
    if (address == nullptr || made) return;
    WithType(tensor.type, [&]<class T>(T*) {
      size_t next = 0;
      ForEach(tensor.dims, [&](const Shape& at) {
        values[next++] = static_cast<double>(Load(static_cast<const T*>(address)[OffsetOf(tensor, at)]));
      });
    });
  }

  // To the type of the tensor, as a kernel that keeps it would.
  void Round(size_t index) {
    WithType(graph_.tensors[index].type, [&]<class T>(T*) {
      for (double& value : values_[index]) {
        value = static_cast<double>(Load(Store<T>(static_cast<ComputeType<T>>(value))));
      }
    });
  }

  void WriteTensor(size_t index, void* address) {
    const GraphTensor& tensor = graph_.tensors[index];
    WithType(tensor.type, [&]<class T>(T*) {
      size_t next = 0;
      ForEach(tensor.dims, [&](const Shape& at) {
        static_cast<T*>(address)[OffsetOf(tensor, at)] = Store<T>(static_cast<ComputeType<T>>(values_[index][next++]));
      });
    });
  }

  void Compute(const GraphOp& op) {
    const Shape& out = graph_.at(op.result).dims;
    auto& values = values_[static_cast<size_t>(op.result)];
    size_t next = 0;
    const bool of_softmax = IsOfSoftmax(op);
    ForEach(out, [&](const Shape& at) {
      switch (op.kind) {
        case OpKind::kPointwise:
          values[next++] = of_softmax ? OfSoftmax(op, at) : Pointwise(op, at);
          break;
        case OpKind::kReduction:
          values[next++] = Reduce(op, at);
          break;
        case OpKind::kMatmul:
          values[next++] = Dot(op, at);
          break;
        case OpKind::kConvolution:
        case OpKind::kConvolutionData:
          values[next++] = Convolve(op, at);
          break;
      }
    });
  }

  double Pointwise(const GraphOp& op, const Shape& at) const {
    if (op.pointwise == PointwiseMode::kIndex) return static_cast<double>(at[op.axis]);
    if (op.pointwise == PointwiseMode::kSelect) return ValueAt(ValueAt(op.c, at) != 0 ? op.a : op.b, at);
    if (op.pointwise == PointwiseMode::kRelu) {
      const double x = ValueAt(op.a, at);
      return x < op.least ? op.slope * (x - op.least) + op.least : (x > op.most ? op.most : x);
    }
    return Evaluate(op.pointwise, ValueAt(op.a, at), op.b < 0 ? 0 : ValueAt(op.b, at));
  }

  // Scores minus their largest, or weights over their sum.
  bool IsOfSoftmax(const GraphOp& op) const {
    if (op.kind != OpKind::kPointwise) return false;
    if (op.pointwise != PointwiseMode::kSub && op.pointwise != PointwiseMode::kDiv) return false;
    const auto mode = op.pointwise == PointwiseMode::kSub ? ReductionMode::kMax : ReductionMode::kAdd;
    return std::any_of(graph_.ops.begin(), graph_.ops.end(), [&](const GraphOp& maker) {
      return maker.kind == OpKind::kReduction && maker.reduction == mode && maker.a == op.a && maker.result == op.b;
    });
  }

  // Scores whose largest is minus infinity have weights and shares of 0, as in the library's fused attention.
  double OfSoftmax(const GraphOp& op, const Shape& at) const {
    const double a = ValueAt(op.a, at), b = ValueAt(op.b, at);
    if (op.pointwise == PointwiseMode::kSub) return b == kHidden ? kHidden : a - b;
    return b == 0 ? 0 : a / b;
  }

  double Reduce(const GraphOp& op, const Shape& at) const {
    const Shape &from = graph_.at(op.a).dims, &to = graph_.at(op.result).dims;
    Shape extent(from.rank(), 1);
    for (int d = 0; d < from.rank(); ++d) extent[d] = to[d] == 1 ? from[d] : 1;
    const bool is_max = op.reduction == ReductionMode::kMax;
    double result = is_max ? kHidden : 0;
    ForEach(extent, [&](const Shape& step) {
      Shape where(at.dims());
      for (int d = 0; d < where.rank(); ++d) where[d] += step[d];
      const double value = ValueAt(op.a, where);
      result = is_max ? Evaluate(PointwiseMode::kMax, value, result) : result + value;
    });
    return result;
  }

  double Dot(const GraphOp& op, const Shape& at) const {
    const int rank = at.rank();
    const Shape &groups = graph_.at(op.b).dims, &out = graph_.at(op.result).dims;
    Shape left(at.dims()), right(at.dims());
    for (int d = 0; d < rank - 2; ++d) right[d] = at[d] * groups[d] / out[d];
    double sum = 0;
    for (int64_t k = 0; k < graph_.at(op.a).dims[rank - 1]; ++k) {
      left[rank - 1] = right[rank - 2] = k;
      sum += ValueAt(op.a, left) * ValueAt(op.b, right);
    }
    return sum;
  }

  // Output element `at` of a convolution, or of the data gradient of one.
  double Convolve(const GraphOp& op, const Shape& at) const {
    const bool forward = op.kind == OpKind::kConvolution;
    const Shape &x = graph_.at(op.a).dims, &w = graph_.at(op.b).dims, &y = graph_.at(op.result).dims;
    const int spatial = x.rank() - 2;
    const int64_t groups = forward ? x[1] / w[1] : y[1] / w[1];
    const int64_t group_in = x[1] / groups, group_out = y[1] / groups, group = at[1] / group_out;
    Shape taps(spatial, 1);
    for (int d = 0; d < spatial; ++d) taps[d] = w[d + 2];
    double sum = 0;
    ForEach(taps, [&](const Shape& tap) {
      Shape from(x.rank(), at[0]), weight(x.rank(), 0);
      for (int d = 0; d < spatial; ++d) {
        const int64_t shift = tap[d] * op.window.dilation[d] - op.window.pad_begin[d], stride = op.window.stride[d];
        const int64_t position = forward ? at[d + 2] * stride + shift : at[d + 2] - shift;
        if (!forward && (position < 0 || position % stride != 0)) return;
        from[d + 2] = forward ? position : position / stride;
        if (from[d + 2] < 0 || from[d + 2] >= x[d + 2]) return;
        weight[d + 2] = tap[d];
      }
      for (int64_t c = 0; c < group_in; ++c) {
        from[1] = group * group_in + c;
        weight[0] = forward ? at[1] : from[1];
        weight[1] = forward ? c : at[1] % group_out;
        sum += ValueAt(op.a, from) * ValueAt(op.b, weight);
      }
    });
    return sum;
  }

  const OpGraph& graph_;
  std::vector<std::vector<double>> values_;
};

}  // namespace

void RunGraph(const OpGraph& graph, std::span<void* const> addresses) { Interpreter(graph, addresses).Run(addresses); }

}  // namespace cudaep::sim
