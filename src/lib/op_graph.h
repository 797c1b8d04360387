// A graph of tensors and operations as data: what a fused kernel of a vendor library computes.
//
// Tensors carry dimensions and strides, so layouts and views need no operation of their own. A virtual tensor exists
// inside the fused kernel alone. Building a graph checks nothing; Check does.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "core/data_type.h"
#include "core/shape.h"
#include "core/status.h"

namespace cudaep::dnn {

using TensorIndex = int;
inline constexpr TensorIndex kNoTensor = -1;

struct GraphTensor {
  DataType type = DataType::kFloat;
  Shape dims, strides;  // of equal rank; stride 0 repeats
  bool is_virtual = false;
  std::optional<float> scalar;  // the value of a tensor of one element that lies in no memory
};

enum class OpKind : uint8_t {
  kConvolution,      // a: x [N,C,...], b: w [K,C/groups,...]
  kConvolutionData,  // a: dy, b: w: the data gradient
  kMatmul,           // a: [..., M, K], b: [..., K, N]; batch dimensions broadcast, those of b in equal groups too
  kPointwise,        // b absent for functions of one argument
  kReduction,        // over the dimensions that are 1 in the output
};

enum class PointwiseMode : uint8_t {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMax,
  kMin,
  kGreaterEqual,
  kIdentity,
  kExp,
  kLog,
  kRsqrt,
  kRelu,
  kGeluErf,
  kGeluTanh,
  kSigmoid,
  kSilu,
  kTanh,
  kIndex,   // of the element along `axis` of a
  kSelect,  // a where c is not 0, b elsewhere
};
inline constexpr int kPointwiseModeCount = 19;
enum class ReductionMode : uint8_t { kAdd, kMax };

// Windows of convolutions, outermost dimension first.
struct WindowSpec {
  Shape pad_begin, pad_end, stride, dilation;
};

struct GraphOp {
  OpKind kind = OpKind::kPointwise;
  PointwiseMode pointwise = PointwiseMode::kIdentity;
  ReductionMode reduction = ReductionMode::kAdd;
  DataType compute = DataType::kFloat;
  TensorIndex a = kNoTensor, b = kNoTensor, c = kNoTensor, result = kNoTensor;
  int axis = 0;  // of kIndex
  // Of kRelu: slope * (x - least) + least below it, and no more than `most`.
  float least = 0.0f, most = std::numeric_limits<float>::infinity(), slope = 0.0f;
  WindowSpec window;
};

struct OpGraph {
  std::vector<GraphTensor> tensors;
  std::vector<GraphOp> ops;  // in an order that makes before it uses
  bool allow_tf32 = true;    // for fp32 tensors
  bool deterministic = false;

  // A tensor of the caller's.
  TensorIndex Tensor(DataType type, Dims dims, Dims strides);
  // A tensor inside the kernel, without gaps.
  TensorIndex Virtual(DataType type, Dims dims);
  TensorIndex Scalar(float value, int rank);

  // Each returns the result, a new virtual fp32 tensor unless one is given.
  TensorIndex Pointwise(PointwiseMode mode, TensorIndex a, TensorIndex b = kNoTensor, TensorIndex result = kNoTensor);
  TensorIndex Reduce(ReductionMode mode, TensorIndex a, Dims result_dims);
  TensorIndex Matmul(TensorIndex a, TensorIndex b, TensorIndex result = kNoTensor);
  // The least number where the last index is greater than the one before it.
  TensorIndex HideAboveDiagonal(TensorIndex a);

  const GraphTensor& at(TensorIndex index) const { return tensors[static_cast<size_t>(index)]; }
  bool is_bound(TensorIndex index) const { return !at(index).is_virtual && !at(index).scalar; }
};

// Ranks, dimensions and order; kInvalidArgument names the operation.
Status Check(const OpGraph& graph);
// Every field, as the graph's identity in a plan store.
std::string GraphText(const OpGraph& graph);

// softmax(scale * Q K^T + bias) V over [batch, heads, length, width] with any strides, as one graph. Heads share those
// of K and V in equal groups. Bound tensors, in this order: Q, K, V, the bias where there is one, the result.
struct AttentionShape {
  DataType type = DataType::kFloat16;
  int64_t batch = 0, heads = 0, kv_heads = 0, queries = 0, keys = 0, width = 0;
  Shape q_strides, k_strides, v_strides, out_strides;  // of [batch, heads, length, width]
  float scale = 1.0f;
  bool causal = false;            // query i sees the keys up to i
  Shape bias_dims, bias_strides;  // rank 0: none; broadcasts to [batch, heads, queries, keys]
};
OpGraph AttentionGraph(const AttentionShape& shape);

}  // namespace cudaep::dnn
