#include "lib/cuda/dnn_graph.h"

#include <algorithm>

#include "core/shape.h"

namespace cudaep::dnn {
namespace {

cudnnDataType_t DataTypeOf(const ConvProblem& p) {
  switch (p.type) {
    case DataType::kFloat16:
      return CUDNN_DATA_HALF;
    case DataType::kBFloat16:
      return CUDNN_DATA_BFLOAT16;
    case DataType::kDouble:
      return CUDNN_DATA_DOUBLE;
    default:
      return CUDNN_DATA_FLOAT;
  }
}

cudnnDataType_t ComputeTypeOf(const ConvProblem& p) {
  return p.type == DataType::kDouble ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
}

// The library wants two spatial dimensions at least: [N,C,D] runs as [N,C,D,1].
int RankOf(const ConvProblem& p) { return p.spatial_rank < 2 ? 2 : p.spatial_rank; }

// Spatial values in the graph's rank, `filler` where the problem has none.
Shape SpatialOf(const ConvProblem& p, const Spatial& values, int64_t filler) {
  Shape out(RankOf(p), filler);
  for (int d = 0; d < p.spatial_rank; ++d) out[d] = values[d];
  return out;
}

// The padding after the data does not decide where windows lie, only how many there are. Symmetric padding is chosen
// where it gives the same count, since few engines offer any other; output padding of a transposed convolution may need
// a value of its own.
int64_t PadEnd(const ConvProblem& p, int d) {
  const bool forward = p.direction == Direction::kForward;
  const int64_t wide = forward ? p.in[d] : p.out[d];
  const int64_t narrow = forward ? p.out[d] : p.in[d];
  const int64_t span = p.dilation[d] * (p.kernel[d] - 1) + 1;
  const auto fits = [&](int64_t pad) {
    const int64_t room = wide + p.pad_begin[d] + pad - span;
    return room >= 0 && room / p.stride[d] + 1 == narrow;
  };
  if (fits(p.pad_begin[d])) return p.pad_begin[d];
  if (fits(p.pad_end[d])) return p.pad_end[d];
  return std::max<int64_t>(0, (narrow - 1) * p.stride[d] + span - wide - p.pad_begin[d]);
}

Shape StridesOf(const Shape& dims, Layout layout) {
  Shape strides(dims.rank(), 1);
  int64_t next = layout == Layout::kChannelsLast ? dims[1] : 1;
  for (int d = dims.rank() - 1; d >= 2; --d) {
    strides[d] = next;
    next *= dims[d];
  }
  strides[1] = layout == Layout::kChannelsLast ? 1 : next;
  strides[0] = layout == Layout::kChannelsLast ? next : next * dims[1];
  return strides;
}

class GraphBuilder {
 public:
  GraphBuilder(const CudnnApi& api, const ConvProblem& problem) : api_(api), p_(problem) {}

  Result<ConvGraph> Build(cudnnHandle_t handle, bool fuse_bias) {
    CUDAEP_RETURN_IF_ERROR(AddTensors(fuse_bias));
    CUDAEP_RETURN_IF_ERROR(AddConvolution(fuse_bias));
    if (fuse_bias) CUDAEP_RETURN_IF_ERROR(AddBias());
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
  Status Keep(Result<Descriptor> made, cudnnBackendDescriptor_t* kept) {
    CUDAEP_RETURN_IF_ERROR(made.status());
    *kept = made->get();
    out_.parts.push_back(std::move(made).value());
    return Status::Ok();
  }

  Status AddTensor(TensorId id, int64_t dim0, int64_t dim1, const Shape& spatial, cudnnDataType_t type,
                   cudnnBackendDescriptor_t* tensor) {
    Shape dims(spatial.rank() + 2, dim0);
    dims[1] = dim1;
    std::copy_n(spatial.data(), spatial.rank(), dims.data() + 2);
    const Shape strides = StridesOf(dims, p_.layout);
    return Keep(DescriptorBuilder(api_, CUDNN_BACKEND_TENSOR_DESCRIPTOR, "cuDNN tensor")
                    .Set(CUDNN_ATTR_TENSOR_DATA_TYPE, type)
                    .SetArray(CUDNN_ATTR_TENSOR_DIMENSIONS, dims)
                    .SetArray(CUDNN_ATTR_TENSOR_STRIDES, strides)
                    .Set(CUDNN_ATTR_TENSOR_UNIQUE_ID, static_cast<int64_t>(id))
                    .Set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, kTensorAlignment)
                    .Set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, id == kTensorVirtual)
                    .Finish(),
                tensor);
  }

  Status AddTensors(bool fuse_bias) {
    const bool forward = p_.direction == Direction::kForward;
    const cudnnDataType_t type = DataTypeOf(p_);
    const Shape in = SpatialOf(p_, p_.in, 1), out = SpatialOf(p_, p_.out, 1), ones(RankOf(p_), 1);
    CUDAEP_RETURN_IF_ERROR(AddTensor(kTensorX, p_.batch, p_.in_channels, in, type, &x_));
    CUDAEP_RETURN_IF_ERROR(AddTensor(kTensorW, forward ? p_.out_channels : p_.in_channels,
                                     (forward ? p_.in_channels : p_.out_channels) / p_.groups,
                                     SpatialOf(p_, p_.kernel, 1), type, &w_));
    CUDAEP_RETURN_IF_ERROR(AddTensor(kTensorY, p_.batch, p_.out_channels, out, type, &y_));
    if (!fuse_bias) return Status::Ok();
    CUDAEP_RETURN_IF_ERROR(AddTensor(kTensorBias, 1, p_.out_channels, ones, type, &bias_));
    return AddTensor(kTensorVirtual, p_.batch, p_.out_channels, out, ComputeTypeOf(p_), &virtual_);
  }

  Status AddConvolution(bool fuse_bias) {
    Shape pad_end(RankOf(p_), 0);
    for (int d = 0; d < p_.spatial_rank; ++d) pad_end[d] = PadEnd(p_, d);
    cudnnBackendDescriptor_t convolution = nullptr;
    CUDAEP_RETURN_IF_ERROR(
        Keep(DescriptorBuilder(api_, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, "cuDNN convolution")
                 .Set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, ComputeTypeOf(p_))
                 .Set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, cudnnConvolutionMode_t{CUDNN_CROSS_CORRELATION})
                 .Set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, static_cast<int64_t>(RankOf(p_)))
                 .SetArray(CUDNN_ATTR_CONVOLUTION_DILATIONS, SpatialOf(p_, p_.dilation, 1))
                 .SetArray(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, SpatialOf(p_, p_.stride, 1))
                 .SetArray(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, SpatialOf(p_, p_.pad_begin, 0))
                 .SetArray(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, pad_end)
                 .Finish(),
             &convolution));
    return p_.type == DataType::kDouble ? AddConvolutionOperation<double>(convolution, fuse_bias)
                                        : AddConvolutionOperation<float>(convolution, fuse_bias);
  }

  template <class Scale>
  Status AddConvolutionOperation(cudnnBackendDescriptor_t convolution, bool fuse_bias) {
    const cudnnBackendDescriptor_t result = fuse_bias ? virtual_ : y_;
    const Scale one = 1, zero = 0;
    cudnnBackendDescriptor_t operation = nullptr;
    if (p_.direction == Direction::kForward) {
      CUDAEP_RETURN_IF_ERROR(Keep(
          DescriptorBuilder(api_, CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, "cuDNN convolution operation")
              .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x_)
              .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, w_)
              .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, result)
              .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, convolution)
              .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, one)
              .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, zero)
              .Finish(),
          &operation));
    } else {
      CUDAEP_RETURN_IF_ERROR(Keep(DescriptorBuilder(api_, CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                                                    "cuDNN data gradient operation")
                                      .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, x_)
                                      .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, w_)
                                      .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, result)
                                      .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, convolution)
                                      .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, one)
                                      .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, zero)
                                      .Finish(),
                                  &operation));
    }
    operations_.push_back(operation);
    return Status::Ok();
  }

  Status AddBias() {
    cudnnBackendDescriptor_t addition = nullptr, operation = nullptr;
    CUDAEP_RETURN_IF_ERROR(Keep(DescriptorBuilder(api_, CUDNN_BACKEND_POINTWISE_DESCRIPTOR, "cuDNN addition")
                                    .Set(CUDNN_ATTR_POINTWISE_MODE, cudnnPointwiseMode_t{CUDNN_POINTWISE_ADD})
                                    .Set(CUDNN_ATTR_POINTWISE_MATH_PREC, ComputeTypeOf(p_))
                                    .Finish(),
                                &addition));
    CUDAEP_RETURN_IF_ERROR(
        Keep(DescriptorBuilder(api_, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, "cuDNN bias operation")
                 .Set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, addition)
                 .Set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, virtual_)
                 .Set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, bias_)
                 .Set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y_)
                 .Finish(),
             &operation));
    operations_.push_back(operation);
    return Status::Ok();
  }

  const CudnnApi& api_;
  const ConvProblem& p_;
  ConvGraph out_;
  cudnnBackendDescriptor_t x_ = nullptr, w_ = nullptr, y_ = nullptr, bias_ = nullptr, virtual_ = nullptr;
  std::vector<cudnnBackendDescriptor_t> operations_;
};

}  // namespace

Result<ConvGraph> BuildGraph(const CudnnApi& api, cudnnHandle_t handle, const ConvProblem& problem, bool fuse_bias) {
  return GraphBuilder(api, problem).Build(handle, fuse_bias);
}

}  // namespace cudaep::dnn
