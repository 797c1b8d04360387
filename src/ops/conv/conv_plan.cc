#include "ops/conv/conv_plan.h"

#include <algorithm>

#include "core/checked_math.h"

namespace cudaep::ops {
namespace {

using dnn::ConvProblem;
using dnn::Direction;

// Above this many taps a depthwise convolution is no longer bound by memory.
constexpr int64_t kMostDepthwiseTaps = 64;
static_assert(kMostDepthwiseTaps <= kernels::kMostDepthwiseLastTaps);
// Of a column matrix; below it small convolutions take one product an image.
constexpr int64_t kColumnBytes = int64_t{32} << 20;
constexpr int64_t kFewestPixels = 256;

Status CheckTensors(Dims x, Dims w, const Dims* bias, int64_t groups) {
  if (x.size() < 3 || w.size() != x.size()) {
    return InvalidArgument("input X ", x, " and weights W ", w,
                           " must have the same rank: batch, channels and at least one spatial dimension");
  }
  if (groups < 1) return InvalidArgument("attribute group is ", groups, ", it must be positive");
  if (bias != nullptr && bias->size() != 1) return InvalidArgument("the bias B ", *bias, " must have rank 1");
  return Status::Ok();
}

Result<ConvProblem> FromWindow(const Window& w, Direction direction, Dims x, int64_t out_channels, int64_t groups,
                               const Dims* bias) {
  if (bias != nullptr && (*bias)[0] != out_channels) {
    return InvalidArgument("the bias B has ", (*bias)[0], " values for ", out_channels, " output channels");
  }
  ConvProblem p;
  p.direction = direction;
  p.spatial_rank = w.rank;
  p.batch = x[0], p.in_channels = x[1], p.out_channels = out_channels, p.groups = groups;
  p.in = w.in, p.out = w.out, p.kernel = w.kernel;
  p.pad_begin = w.pad_begin, p.pad_end = w.pad_end, p.stride = w.stride, p.dilation = w.dilation;
  p.epilogue.bias = bias != nullptr;
  return p;
}

int64_t SplitPadding(AutoPad auto_pad, int64_t total) {
  return auto_pad == AutoPad::kSameUpper ? total / 2 : total - total / 2;
}

// Padding and output size of a transposed convolution along dimension d.
Status PlaceTransposed(const ConvAttributes& attributes, Window* w, size_t d) {
  const WindowAttributes& window = attributes.window;
  const size_t rank = static_cast<size_t>(w->rank);
  const int64_t extra = attributes.output_padding.empty() ? 0 : attributes.output_padding[d];
  if (extra >= std::max(w->stride[d], w->dilation[d])) {
    return InvalidArgument("attribute output_padding ", Dims(attributes.output_padding), " at dimension ", d,
                           " must be smaller than stride or dilation");
  }
  int64_t full = 0;  // without padding
  if (!CheckedMultiply(w->stride[d], std::max<int64_t>(w->in[d] - 1, 0), &full) ||
      !CheckedAdd(full, w->span(static_cast<int>(d)) + extra, &full)) {
    return InvalidArgument("the output of a transposed convolution over ", w->in[d], " elements is too large");
  }
  const auto pad_to = [&](int64_t out) {
    const int64_t total = std::max<int64_t>(0, full - out);
    w->pad_begin[d] = SplitPadding(window.auto_pad, total);
    w->pad_end[d] = total - w->pad_begin[d];
  };
  if (!attributes.output_shape.empty()) {
    const size_t offset = attributes.output_shape.size() - rank;  // batch and channels may be given too
    w->out[d] = attributes.output_shape[offset + d];
    pad_to(w->out[d]);
    return Status::Ok();
  }
  if (window.auto_pad == AutoPad::kNotSet && !window.pads.empty()) {
    w->pad_begin[d] = window.pads[d];
    w->pad_end[d] = window.pads[rank + d];
  } else if (window.auto_pad == AutoPad::kSameUpper || window.auto_pad == AutoPad::kSameLower) {
    pad_to(w->in[d] * w->stride[d]);
  }
  w->out[d] = w->in[d] == 0 ? 0 : full - w->pad_begin[d] - w->pad_end[d];
  if (w->out[d] >= 0) return Status::Ok();
  return InvalidArgument("padding ", w->pad_begin[d], '+', w->pad_end[d], " at spatial dimension ", d,
                         " leaves nothing of ", full, " outputs");
}

}  // namespace

Result<ConvAttributes> ParseConv(const OpInfo& info) {
  ConvAttributes out;
  CUDAEP_ASSIGN_OR_RETURN(out.window, ParseWindow(info));
  out.groups = info.IntOr("group", 1);
  out.output_padding = info.IntsOr("output_padding", {});
  out.output_shape = info.IntsOr("output_shape", {});
  for (int64_t value : out.output_padding) {
    if (value < 0)
      return InvalidArgument("attribute output_padding ", Dims(out.output_padding), " has a negative value");
  }
  for (int64_t value : out.output_shape) {
    if (value < 0) return InvalidArgument("attribute output_shape ", Dims(out.output_shape), " has a negative value");
  }
  return out;
}

Result<ConvProblem> PlaceConv(const ConvAttributes& attributes, Dims x, Dims w, const Dims* bias) {
  const int64_t groups = attributes.groups;
  CUDAEP_RETURN_IF_ERROR(CheckTensors(x, w, bias, groups));
  int64_t in_channels = 0;
  if (!CheckedMultiply(w[1], groups, &in_channels) || in_channels != x[1] || w[0] % groups != 0) {
    return InvalidArgument("weights W ", w, " in ", groups, " groups do not fit the ", x[1], " channels of X ", x);
  }
  CUDAEP_ASSIGN_OR_RETURN(const Window window, PlaceWindow(attributes.window, x.subspan(2), w.subspan(2)));
  return FromWindow(window, Direction::kForward, x, w[0], groups, bias);
}

Result<ConvProblem> PlaceConvTranspose(const ConvAttributes& attributes, Dims x, Dims w, const Dims* bias) {
  const int64_t groups = attributes.groups;
  CUDAEP_RETURN_IF_ERROR(CheckTensors(x, w, bias, groups));
  int64_t out_channels = 0;
  if (!CheckedMultiply(w[1], groups, &out_channels) || w[0] != x[1] || x[1] % groups != 0) {
    return InvalidArgument("weights W ", w, " in ", groups, " groups do not fit the ", x[1], " channels of X ", x);
  }
  CUDAEP_ASSIGN_OR_RETURN(Window window, MakeWindow(attributes.window, x.subspan(2), w.subspan(2)));
  const size_t rank = static_cast<size_t>(window.rank), shape_rank = attributes.output_shape.size();
  if (!attributes.output_padding.empty() && attributes.output_padding.size() != rank) {
    return InvalidArgument("attribute output_padding needs ", rank, " values, not ", attributes.output_padding.size());
  }
  if (shape_rank != 0 && shape_rank != rank && shape_rank != rank + 2) {
    return InvalidArgument("attribute output_shape needs ", rank, " values, not ", shape_rank);
  }
  for (size_t d = 0; d < rank; ++d) CUDAEP_RETURN_IF_ERROR(PlaceTransposed(attributes, &window, d));
  return FromWindow(window, Direction::kBackward, x, out_channels, groups, bias);
}

Shape OutputOf(const ConvProblem& p) {
  Shape y{p.batch, p.out_channels};
  for (int d = 0; d < p.spatial_rank; ++d) y.Append(p.out[static_cast<size_t>(d)]);
  return y;
}

double ConvFlops(const dnn::ConvProblem& p) {
  const bool forward = p.direction == dnn::Direction::kForward;
  const int64_t pixels = ProductOfUsed(forward ? p.out : p.in, p.spatial_rank);
  const int64_t taps = ProductOfUsed(p.kernel, p.spatial_rank);
  const int64_t pairs = p.in_channels * p.out_channels / p.groups;  // of channels
  return 2.0 * static_cast<double>(p.batch * pixels) * static_cast<double>(pairs) * static_cast<double>(taps);
}

ConvProblem WithOuterDimension(const ConvProblem& problem) {
  ConvProblem p = problem;
  p.spatial_rank = 2;
  const auto shift = [](dnn::Spatial* values, int64_t filler) { *values = {filler, (*values)[0], 0}; };
  for (dnn::Spatial* ones : {&p.in, &p.out, &p.kernel, &p.stride, &p.dilation}) shift(ones, 1);
  for (dnn::Spatial* zeros : {&p.pad_begin, &p.pad_end}) shift(zeros, 0);
  return p;
}

bool IsDepthwise(const ConvProblem& p) {
  const auto fits = [&](const dnn::Spatial& extent) { return FitsInt32(ProductOfUsed(extent, p.spatial_rank)); };
  if (p.direction != Direction::kForward || p.spatial_rank > 2) return false;
  if (p.layout == dnn::Layout::kChannelsLast && p.out_channels != p.in_channels) return false;
  if (p.groups != p.in_channels || p.groups == 1 || !kernels::kDepthwiseTypes.Contains(p.types.a)) return false;
  if (ProductOfUsed(p.kernel, p.spatial_rank) > kMostDepthwiseTaps || !fits(p.in) || !fits(p.out)) return false;
  for (int d = 0; d < p.spatial_rank; ++d) {  // positions in the padded input
    const size_t i = static_cast<size_t>(d);
    if (!FitsInt32(p.in[i] + 2 * (p.pad_begin[i] + p.pad_end[i] + p.kernel[i] * p.dilation[i] + 8 * p.stride[i]))) {
      return false;
    }
  }
  return FitsInt32(p.batch * p.out_channels);
}

std::optional<kernels::ManyRowsProduct> PointwiseOf(const ConvProblem& p) {
  const bool is_plain = p.direction == Direction::kForward && p.layout == dnn::Layout::kChannelsLast && p.groups == 1 &&
                        p.types.b == p.types.a && p.types.c == p.types.a;
  const bool is_scaled = p.epilogue.alpha != 1.0f || (p.epilogue.residual() && p.epilogue.beta != 1.0f);
  if (!is_plain || is_scaled || p.has_parts() || (p.epilogue.residual() && p.epilogue.adds_last)) return std::nullopt;
  for (size_t d = 0; d < static_cast<size_t>(p.spatial_rank); ++d) {
    if (p.kernel[d] != 1 || p.stride[d] != 1 || p.pad_begin[d] != 0 || p.pad_end[d] != 0) return std::nullopt;
  }
  return kernels::ManyRowsProduct{.type = p.types.a,
                                  .m = p.batch * ProductOfUsed(p.out, p.spatial_rank),
                                  .n = p.out_channels,
                                  .k = p.in_channels,
                                  .bias = p.epilogue.bias,
                                  .residual = p.epilogue.residual(),
                                  .activation = p.epilogue.activation};
}

kernels::DepthwiseConv DepthwiseOf(const ConvProblem& problem) {
  const ConvProblem p = problem.spatial_rank == 1 ? WithOuterDimension(problem) : problem;
  const auto narrow = [](int64_t value) { return static_cast<int32_t>(value); };
  return {.type = p.types.a,
          .batch = p.batch,
          .in_channels = narrow(p.in_channels),
          .multiplier = narrow(p.out_channels / p.in_channels),
          .in_h = narrow(p.in[0]),
          .in_w = narrow(p.in[1]),
          .out_h = narrow(p.out[0]),
          .out_w = narrow(p.out[1]),
          .kernel_h = narrow(p.kernel[0]),
          .kernel_w = narrow(p.kernel[1]),
          .stride_h = narrow(p.stride[0]),
          .stride_w = narrow(p.stride[1]),
          .dilation_h = narrow(p.dilation[0]),
          .dilation_w = narrow(p.dilation[1]),
          .pad_top = narrow(p.pad_begin[0]),
          .pad_left = narrow(p.pad_begin[1])};
}

ColumnConv PlaceColumns(const ConvProblem& p, size_t workspace_limit_bytes, bool may_be_direct, bool packed_weights) {
  const bool transposed = p.direction == Direction::kBackward;
  const int64_t taps = ProductOfUsed(p.kernel, p.spatial_rank);
  const int64_t group_in = p.in_channels / p.groups, group_out = p.out_channels / p.groups;
  ColumnConv out;
  kernels::Im2col& columns = out.columns;
  columns.channels = p.in_channels;
  columns.transposed = transposed;
  bool identity = may_be_direct && taps == 1;
  for (int d = 0; d < 3; ++d) {  // dimensions move to the inner end
    const int from = d - (3 - p.spatial_rank);
    const size_t i = static_cast<size_t>(std::max(from, 0));
    columns.in[d] = from < 0 ? 1 : p.in[i];
    columns.out[d] = from < 0 ? 1 : p.out[i];
    columns.kernel[d] = from < 0 ? 1 : p.kernel[i];
    columns.stride[d] = from < 0 ? 1 : p.stride[i];
    columns.dilation[d] = from < 0 ? 1 : p.dilation[i];
    columns.pad[d] = from < 0 ? 0 : p.pad_begin[i];
    identity = identity && columns.stride[d] == 1 && columns.pad[d] == 0 && columns.in[d] == columns.out[d];
  }
  out.direct = identity;
  out.images = p.batch;
  out.pixels = ProductOfUsed(p.out, p.spatial_rank);
  out.x_stride = p.in_channels * ProductOfUsed(p.in, p.spatial_rank);
  out.y_stride = p.out_channels * out.pixels;
  const int64_t pixel_bytes = std::max<int64_t>(1, p.in_channels * taps * static_cast<int64_t>(SizeOf(p.types.a)));
  out.packed_elems = transposed || packed_weights ? p.in_channels * group_out * taps : 0;
  const int64_t packed_bytes =
      AlignUp<int64_t>(out.packed_elems * static_cast<int64_t>(SizeOf(p.types.a)), kPartAlignment);
  const int64_t limit = static_cast<int64_t>(std::min<size_t>(workspace_limit_bytes, INT64_MAX));
  const int64_t most = std::max<int64_t>(1, std::max<int64_t>(limit - packed_bytes, 0) / pixel_bytes);
  out.chunk = std::min(out.pixels, std::max(kFewestPixels, kColumnBytes / pixel_bytes));
  out.chunk = out.direct ? out.pixels : std::min(out.chunk, most);
  out.column_elems = out.direct ? 0 : p.in_channels * taps * out.chunk;

  blas::GemmProblem& product = out.product;
  product.types = p.types;
  product.m = group_out, product.k = group_in * taps;
  product.lda = product.k, product.ldc = out.pixels;
  product.batch[0] = {.size = p.groups, .stride_a = group_out * product.k, .stride_c = group_out * out.pixels};
  product = out.ProductOf(out.chunk);
  if (out.direct && p.groups == 1) {  // images differ only in where they lie: one batch
    product.batch[0] = {.size = p.batch, .stride_a = 0, .stride_b = out.x_stride, .stride_c = out.y_stride};
    out.images = 1;
  }
  return out;
}

blas::GemmProblem ColumnConv::ProductOf(int64_t chunk_pixels) const {
  blas::GemmProblem chunked = product;
  chunked.n = chunked.ldb = chunk_pixels;
  chunked.batch[0].stride_b = chunked.k * chunk_pixels;
  return chunked;
}

}  // namespace cudaep::ops
