#include "lib/cuda/graph_descriptors.h"

#include <cmath>

#include "lib/dnn.h"

namespace cudaep::dnn {
namespace {

cudnnDataType_t CudnnType(DataType type) {
  switch (type) {
    case DataType::kFloat16:
      return CUDNN_DATA_HALF;
    case DataType::kBFloat16:
      return CUDNN_DATA_BFLOAT16;
    case DataType::kDouble:
      return CUDNN_DATA_DOUBLE;
    case DataType::kInt32:
      return CUDNN_DATA_INT32;
    case DataType::kInt8:
      return CUDNN_DATA_INT8;
    case DataType::kBool:
      return CUDNN_DATA_BOOLEAN;
    default:
      return CUDNN_DATA_FLOAT;
  }
}

cudnnPointwiseMode_t CudnnMode(PointwiseMode mode) {
  static constexpr cudnnPointwiseMode_t kModes[kPointwiseModeCount] = {
      CUDNN_POINTWISE_ADD,          CUDNN_POINTWISE_SUB,
      CUDNN_POINTWISE_MUL,          CUDNN_POINTWISE_DIV,
      CUDNN_POINTWISE_MAX,          CUDNN_POINTWISE_MIN,
      CUDNN_POINTWISE_CMP_GE,       CUDNN_POINTWISE_IDENTITY,
      CUDNN_POINTWISE_EXP,          CUDNN_POINTWISE_LOG,
      CUDNN_POINTWISE_RSQRT,        CUDNN_POINTWISE_RELU_FWD,
      CUDNN_POINTWISE_GELU_FWD,     CUDNN_POINTWISE_GELU_APPROX_TANH_FWD,
      CUDNN_POINTWISE_SIGMOID_FWD,  CUDNN_POINTWISE_SWISH_FWD,
      CUDNN_POINTWISE_TANH_FWD,     CUDNN_POINTWISE_GEN_INDEX,
      CUDNN_POINTWISE_BINARY_SELECT};
  return kModes[static_cast<int>(mode)];
}

class GraphBuilder {
 public:
  GraphBuilder(const CudnnApi& api, const OpGraph& graph) : api_(api), graph_(graph) {}

  Result<DescribedGraph> Build(cudnnHandle_t handle) {
    for (size_t i = 0; i < graph_.tensors.size(); ++i) {
      CUDAEP_RETURN_IF_ERROR(AddTensor(static_cast<TensorIndex>(i)));
    }
    for (const GraphOp& op : graph_.ops) CUDAEP_RETURN_IF_ERROR(AddOp(op));
    CUDAEP_ASSIGN_OR_RETURN(out_.graph,
                            DescriptorBuilder(api_, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, "cuDNN operation graph")
                                .SetRaw(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                        static_cast<int64_t>(operations_.size()), operations_.data())
                                .Set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, handle)
                                .Finish());
    return std::move(out_);
  }

 private:
  // Keeps the descriptor in the graph and returns it for use by others.
  Result<cudnnBackendDescriptor_t> Keep(Result<Descriptor> made) {
    CUDAEP_RETURN_IF_ERROR(made.status());
    out_.parts.push_back(std::move(made).value());
    return out_.parts.back().get();
  }

  Status AddTensor(TensorIndex index) {
    const GraphTensor& tensor = graph_.at(index);
    CUDAEP_ASSIGN_OR_RETURN(const cudnnBackendDescriptor_t made,
                            Keep(DescriptorBuilder(api_, CUDNN_BACKEND_TENSOR_DESCRIPTOR, "cuDNN tensor")
                                     .Set(CUDNN_ATTR_TENSOR_DATA_TYPE, CudnnType(tensor.type))
                                     .SetArray(CUDNN_ATTR_TENSOR_DIMENSIONS, tensor.dims)
                                     .SetArray(CUDNN_ATTR_TENSOR_STRIDES, tensor.strides)
                                     .Set(CUDNN_ATTR_TENSOR_UNIQUE_ID, UniqueId(index))
                                     .Set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT,
                                          static_cast<int64_t>(tensor.scalar ? sizeof(float) : kTensorAlignment))
                                     .Set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, tensor.is_virtual)
                                     .Set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, tensor.scalar.has_value())
                                     .Finish()));
    tensors_.push_back(made);
    return Status::Ok();
  }

  Status AddOp(const GraphOp& op) {
    switch (op.kind) {
      case OpKind::kPointwise:
        return AddPointwise(op);
      case OpKind::kReduction:
        return AddReduction(op);
      case OpKind::kMatmul:
        return AddMatmul(op);
      case OpKind::kConvolution:
      case OpKind::kConvolutionData:
        return op.compute == DataType::kDouble ? AddConvolution<double>(op) : AddConvolution<float>(op);
    }
    return Internal("a graph operation of unknown kind");
  }

  cudnnBackendDescriptor_t TensorOf(TensorIndex index) const { return tensors_[static_cast<size_t>(index)]; }

  Status Finish(DescriptorBuilder& builder) {
    CUDAEP_ASSIGN_OR_RETURN(const cudnnBackendDescriptor_t made, Keep(builder.Finish()));
    operations_.push_back(made);
    return Status::Ok();
  }

  // Those that are not the library's own choice.
  static void SetBounds(const GraphOp& op, DescriptorBuilder& function) {
    if (op.least != 0) function.Set(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, static_cast<double>(op.least));
    if (std::isfinite(op.most)) function.Set(CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, static_cast<double>(op.most));
    if (op.slope != 0) function.Set(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, static_cast<double>(op.slope));
  }

  Status AddPointwise(const GraphOp& op) {
    DescriptorBuilder function(api_, CUDNN_BACKEND_POINTWISE_DESCRIPTOR, "cuDNN pointwise");
    function.Set(CUDNN_ATTR_POINTWISE_MODE, CudnnMode(op.pointwise))
        .Set(CUDNN_ATTR_POINTWISE_MATH_PREC, CudnnType(op.compute));
    if (op.pointwise == PointwiseMode::kIndex) function.Set(CUDNN_ATTR_POINTWISE_AXIS, int64_t{op.axis});
    if (op.pointwise == PointwiseMode::kRelu) SetBounds(op, function);
    CUDAEP_ASSIGN_OR_RETURN(const cudnnBackendDescriptor_t mode, Keep(function.Finish()));
    DescriptorBuilder operation(api_, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, "cuDNN pointwise operation");
    operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, mode)
        .Set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, TensorOf(op.a))
        .Set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, TensorOf(op.result));
    if (op.b != kNoTensor) operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, TensorOf(op.b));
    if (op.c != kNoTensor) operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, TensorOf(op.c));
    return Finish(operation);
  }

  Status AddReduction(const GraphOp& op) {
    const cudnnReduceTensorOp_t kind =
        op.reduction == ReductionMode::kAdd ? CUDNN_REDUCE_TENSOR_ADD : CUDNN_REDUCE_TENSOR_MAX;
    CUDAEP_ASSIGN_OR_RETURN(
        const cudnnBackendDescriptor_t reduction,
        Keep(DescriptorBuilder(api_, CUDNN_BACKEND_REDUCTION_DESCRIPTOR, "cuDNN reduction")
                 .SetRaw(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &kind)
                 .Set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CudnnType(op.compute))
                 .Finish()));
    DescriptorBuilder operation(api_, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, "cuDNN reduction operation");
    operation.Set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, TensorOf(op.a))
        .Set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, TensorOf(op.result))
        .Set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, reduction);
    return Finish(operation);
  }

  Status AddMatmul(const GraphOp& op) {
    CUDAEP_ASSIGN_OR_RETURN(const cudnnBackendDescriptor_t matmul,
                            Keep(DescriptorBuilder(api_, CUDNN_BACKEND_MATMUL_DESCRIPTOR, "cuDNN matmul")
                                     .Set(CUDNN_ATTR_MATMUL_COMP_TYPE, CudnnType(op.compute))
                                     .Finish()));
    DescriptorBuilder operation(api_, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, "cuDNN matmul operation");
    operation.Set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, TensorOf(op.a))
        .Set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, TensorOf(op.b))
        .Set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, TensorOf(op.result))
        .Set(CUDNN_ATTR_OPERATION_MATMUL_DESC, matmul);
    return Finish(operation);
  }

  template <class Scale>
  Status AddConvolution(const GraphOp& op) {
    const WindowSpec& window = op.window;
    CUDAEP_ASSIGN_OR_RETURN(
        const cudnnBackendDescriptor_t convolution,
        Keep(DescriptorBuilder(api_, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, "cuDNN convolution")
                 .Set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CudnnType(op.compute))
                 .Set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, cudnnConvolutionMode_t{CUDNN_CROSS_CORRELATION})
                 .Set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, static_cast<int64_t>(window.stride.rank()))
                 .SetArray(CUDNN_ATTR_CONVOLUTION_DILATIONS, window.dilation)
                 .SetArray(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, window.stride)
                 .SetArray(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, window.pad_begin)
                 .SetArray(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, window.pad_end)
                 .Finish()));
    const Scale one = 1, zero = 0;
    if (op.kind == OpKind::kConvolution) {
      DescriptorBuilder operation(api_, CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                                  "cuDNN convolution operation");
      operation.Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, TensorOf(op.a))
          .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, TensorOf(op.b))
          .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, TensorOf(op.result))
          .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, convolution)
          .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, one)
          .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, zero);
      return Finish(operation);
    }
    DescriptorBuilder operation(api_, CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                                "cuDNN data gradient operation");
    operation.Set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, TensorOf(op.a))
        .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, TensorOf(op.b))
        .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, TensorOf(op.result))
        .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, convolution)
        .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, one)
        .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, zero);
    return Finish(operation);
  }

  const CudnnApi& api_;
  const OpGraph& graph_;
  DescribedGraph out_;
  std::vector<cudnnBackendDescriptor_t> tensors_, operations_;
};

}  // namespace

Result<DescribedGraph> DescribeGraph(const CudnnApi& api, cudnnHandle_t handle, const OpGraph& graph) {
  CUDAEP_RETURN_IF_ERROR(Check(graph));
  return GraphBuilder(api, graph).Build(handle);
}

}  // namespace cudaep::dnn
