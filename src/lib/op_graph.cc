#include "lib/op_graph.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "core/strings.h"

namespace cudaep::dnn {
namespace {

Shape DenseStrides(Dims dims) {
  Shape strides(static_cast<int>(dims.size()), 1);
  for (int d = strides.rank() - 1; d > 0; --d) strides[d - 1] = strides[d] * dims[static_cast<size_t>(d)];
  return strides;
}

// Dimensions of a pointwise result: the larger of each, as sizes of 1 repeat.
Shape Widest(const Shape& a, const Shape& b) {
  Shape out(a.dims());
  for (int d = 0; d < out.rank() && d < b.rank(); ++d) out[d] = std::max(a[d], b[d]);
  return out;
}

bool Broadcasts(const Shape& from, const Shape& to) {
  bool fits = from.rank() == to.rank();
  for (int d = 0; fits && d < to.rank(); ++d) fits = from[d] == to[d] || from[d] == 1;
  return fits;
}

Status CheckOp(const OpGraph& graph, const GraphOp& op, const std::vector<bool>& made) {
  const auto readable = [&](TensorIndex index) {
    return index >= 0 && static_cast<size_t>(index) < graph.tensors.size() &&
           (!graph.at(index).is_virtual || made[static_cast<size_t>(index)]);
  };
  const bool selects = op.kind == OpKind::kPointwise && op.pointwise == PointwiseMode::kSelect;
  const bool binary = op.kind == OpKind::kPointwise ? selects || op.pointwise < PointwiseMode::kIdentity
                                                    : op.kind != OpKind::kReduction;
  if (!readable(op.a) || (binary ? !readable(op.b) : op.b != kNoTensor) ||
      (selects ? !readable(op.c) : op.c != kNoTensor)) {
    return InvalidArgument("an operand is missing or not made yet");
  }
  if (op.result < 0 || static_cast<size_t>(op.result) >= graph.tensors.size() || graph.at(op.result).scalar ||
      made[static_cast<size_t>(op.result)]) {
    return InvalidArgument("the result is missing, a scalar, or made twice");
  }
  const Shape &a = graph.at(op.a).dims, &out = graph.at(op.result).dims;
  const int rank = out.rank();
  switch (op.kind) {
    case OpKind::kPointwise:
      if (!Broadcasts(a, out) || (binary && !Broadcasts(graph.at(op.b).dims, out))) break;
      if (selects && !Broadcasts(graph.at(op.c).dims, out)) break;
      if (op.pointwise == PointwiseMode::kIndex && (op.axis < 0 || op.axis >= rank)) break;
      return Status::Ok();
    case OpKind::kReduction:
      if (!Broadcasts(out, a)) break;
      return Status::Ok();
    case OpKind::kMatmul: {
      const Shape& b = graph.at(op.b).dims;
      bool fits = rank >= 2 && a.rank() == rank && b.rank() == rank && a[rank - 1] == b[rank - 2] &&
                  a[rank - 2] == out[rank - 2] && b[rank - 1] == out[rank - 1];
      for (int d = 0; fits && d < rank - 2; ++d) {
        fits = (a[d] == out[d] || a[d] == 1) && out[d] % b[d] == 0;
      }
      if (!fits) break;
      return Status::Ok();
    }
    case OpKind::kConvolution:
    case OpKind::kConvolutionData:
      if (rank < 4 || a.rank() != rank || graph.at(op.b).dims.rank() != rank || op.window.stride.rank() != rank - 2 ||
          op.window.dilation.rank() != rank - 2 || op.window.pad_begin.rank() != rank - 2 ||
          op.window.pad_end.rank() != rank - 2) {
        break;
      }
      return Status::Ok();
  }
  return InvalidArgument("dimensions do not fit: ", a.dims(), " to ", out.dims());
}

}  // namespace

TensorIndex OpGraph::Tensor(DataType type, Dims dims, Dims strides) {
  tensors.push_back({.type = type, .dims = Shape(dims), .strides = Shape(strides)});
  return static_cast<TensorIndex>(tensors.size()) - 1;
}

TensorIndex OpGraph::Virtual(DataType type, Dims dims) {
  const TensorIndex index = Tensor(type, dims, DenseStrides(dims));
  tensors.back().is_virtual = true;
  return index;
}

TensorIndex OpGraph::Scalar(float value, int rank) {
  const Shape ones(rank, 1);
  const TensorIndex index = Tensor(DataType::kFloat, ones, ones);
  tensors.back().scalar = value;
  return index;
}

TensorIndex OpGraph::Pointwise(PointwiseMode mode, TensorIndex a, TensorIndex b, TensorIndex result) {
  if (result == kNoTensor) {
    result = Virtual(DataType::kFloat, b == kNoTensor ? at(a).dims : Widest(at(a).dims, at(b).dims));
  }
  const DataType compute = at(result).type == DataType::kDouble ? DataType::kDouble : DataType::kFloat;
  ops.push_back({.kind = OpKind::kPointwise, .pointwise = mode, .compute = compute, .a = a, .b = b, .result = result});
  return result;
}

TensorIndex OpGraph::Reduce(ReductionMode mode, TensorIndex a, Dims result_dims) {
  const TensorIndex result = Virtual(DataType::kFloat, result_dims);
  ops.push_back({.kind = OpKind::kReduction, .reduction = mode, .a = a, .result = result});
  return result;
}

TensorIndex OpGraph::Matmul(TensorIndex a, TensorIndex b, TensorIndex result) {
  if (result == kNoTensor) {
    Shape dims = Widest(at(a).dims, at(b).dims);
    dims[dims.rank() - 2] = at(a).dims[dims.rank() - 2];
    dims[dims.rank() - 1] = at(b).dims[dims.rank() - 1];
    result = Virtual(DataType::kFloat, dims);
  }
  ops.push_back({.kind = OpKind::kMatmul, .a = a, .b = b, .result = result});
  return result;
}

TensorIndex OpGraph::HideAboveDiagonal(TensorIndex a) {
  const Shape dims = at(a).dims;
  const auto add = [&](PointwiseMode mode, DataType type, GraphOp op) {
    op.kind = OpKind::kPointwise;
    op.pointwise = mode;
    op.compute = type;
    op.result = Virtual(type, dims);
    ops.push_back(op);
    return op.result;
  };
  const TensorIndex row = add(PointwiseMode::kIndex, DataType::kInt32, {.a = a, .axis = dims.rank() - 2});
  const TensorIndex column = add(PointwiseMode::kIndex, DataType::kInt32, {.a = a, .axis = dims.rank() - 1});
  const TensorIndex seen = add(PointwiseMode::kGreaterEqual, DataType::kBool, {.a = row, .b = column});
  const TensorIndex least = Scalar(std::numeric_limits<float>::lowest(), dims.rank());
  return add(PointwiseMode::kSelect, DataType::kFloat, {.a = a, .b = least, .c = seen});
}

Status Check(const OpGraph& graph) {
  std::vector<bool> made(graph.tensors.size(), false);
  for (size_t i = 0; i < graph.tensors.size(); ++i) {
    const GraphTensor& tensor = graph.tensors[i];
    const bool positive =
        std::all_of(tensor.dims.data(), tensor.dims.data() + tensor.dims.rank(), [](int64_t size) { return size > 0; });
    if (tensor.dims.rank() != tensor.strides.rank() || !positive) {
      return InvalidArgument("graph: tensor ", i, " has dimensions ", tensor.dims.dims(), " with strides ",
                             tensor.strides.dims());
    }
  }
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    CUDAEP_RETURN_IF_ERROR(CheckOp(graph, graph.ops[i], made).WithContext(StrCat("graph: operation ", i)));
    made[static_cast<size_t>(graph.ops[i].result)] = true;
  }
  return Status::Ok();
}

std::string GraphText(const OpGraph& graph) {
  std::string text = StrCat("graph", graph.allow_tf32 ? " tf32" : "", graph.deterministic ? " deterministic" : "");
  for (const GraphTensor& tensor : graph.tensors) {
    text +=
        StrCat(tensor.is_virtual ? " v" : " t", DataTypeName(tensor.type), tensor.dims.dims(), tensor.strides.dims());
    if (tensor.scalar) text += StrCat('=', std::bit_cast<uint32_t>(*tensor.scalar));
  }
  for (const GraphOp& op : graph.ops) {
    text += StrCat(" op", static_cast<int>(op.kind), '.', static_cast<int>(op.pointwise), '.',
                   static_cast<int>(op.reduction), '.', DataTypeName(op.compute), ' ', op.a, ',', op.b, ',', op.c, '>',
                   op.result, '@', op.axis);
    if (op.pointwise == PointwiseMode::kRelu) {
      for (const float value : {op.least, op.most, op.slope}) text += StrCat('~', std::bit_cast<uint32_t>(value));
    }
    if (op.window.stride.rank() != 0) {
      text += StrCat(op.window.pad_begin.dims(), op.window.pad_end.dims(), op.window.stride.dims(),
                     op.window.dilation.dims());
    }
  }
  return text;
}

OpGraph AttentionGraph(const AttentionShape& s) {
  OpGraph graph;
  const Shape q_dims{s.batch, s.heads, s.queries, s.width};
  const Shape k_dims{s.batch, s.kv_heads, s.width, s.keys};  // transposed by its strides
  const Shape v_dims{s.batch, s.kv_heads, s.keys, s.width};
  const Shape k_strides{s.k_strides[0], s.k_strides[1], s.k_strides[3], s.k_strides[2]};
  const TensorIndex q = graph.Tensor(s.type, q_dims, s.q_strides), k = graph.Tensor(s.type, k_dims, k_strides);
  const TensorIndex v = graph.Tensor(s.type, v_dims, s.v_strides);
  const TensorIndex bias = s.bias_dims.rank() == 0 ? kNoTensor : graph.Tensor(s.type, s.bias_dims, s.bias_strides);
  const TensorIndex out = graph.Tensor(s.type, q_dims, s.out_strides);
  TensorIndex scores = graph.Matmul(q, k);
  scores = graph.Pointwise(PointwiseMode::kMul, scores, graph.Scalar(s.scale, 4));
  if (bias != kNoTensor) scores = graph.Pointwise(PointwiseMode::kAdd, scores, bias);
  if (s.causal) scores = graph.HideAboveDiagonal(scores);
  const Shape rows{s.batch, s.heads, s.queries, 1};
  const TensorIndex most = graph.Reduce(ReductionMode::kMax, scores, rows);
  const TensorIndex shifted = graph.Pointwise(PointwiseMode::kSub, scores, most);
  const TensorIndex weights = graph.Pointwise(PointwiseMode::kExp, shifted);
  const TensorIndex sum = graph.Reduce(ReductionMode::kAdd, weights, rows);
  // The logarithm of the sums, which nobody reads: the library knows the pattern only with it.
  graph.Pointwise(PointwiseMode::kAdd, most, graph.Pointwise(PointwiseMode::kLog, sum));
  // The library's second product takes its operand in the tensors' own type.
  const TensorIndex share = graph.Virtual(s.type, graph.at(weights).dims);
  graph.Pointwise(PointwiseMode::kDiv, weights, sum, share);
  graph.Matmul(share, v, out);
  return graph;
}

}  // namespace cudaep::dnn
