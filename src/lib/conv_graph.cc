#include "lib/conv_graph.h"

#include <algorithm>
#include <optional>

#include "core/strings.h"

namespace cudaep::dnn {
namespace {

// The library wants two spatial dimensions at least: [N,C,D] runs as [N,C,D,1].
int RankOf(const ConvProblem& p) { return std::max(p.spatial_rank, 2); }

// Spatial values in the graph's rank, `filler` where the problem has none.
Shape SpatialOf(const ConvProblem& p, const Spatial& values, int64_t filler) {
  Shape out(RankOf(p), filler);
  for (int d = 0; d < p.spatial_rank; ++d) out[d] = values[static_cast<size_t>(d)];
  return out;
}

// The padding after the data does not decide where windows lie, only how many there are. Symmetric padding is chosen
// where it gives the same count, since few engines offer any other; output padding of a transposed convolution may need
// a value of its own.
int64_t PadEnd(const ConvProblem& p, size_t d) {
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

// `pitch`: channels of what the tensor is a part of, or 0.
Shape StridesOf(const Shape& dims, Layout layout, int64_t pitch = 0) {
  Shape strides(dims.rank(), 1);
  int64_t next = layout == Layout::kChannelsFirst ? 1 : pitch == 0 ? dims[1] : pitch;
  for (int d = dims.rank() - 1; d >= 2; --d) {
    strides[d] = next;
    next *= dims[d];
  }
  strides[1] = layout == Layout::kChannelsLast ? 1 : next;
  strides[0] = layout == Layout::kChannelsLast ? next : next * dims[1];
  return strides;
}

Shape DimsOf(int64_t dim0, int64_t dim1, const Shape& spatial) {
  Shape dims(spatial.rank() + 2, dim0);
  dims[1] = dim1;
  std::copy_n(spatial.data(), spatial.rank(), dims.data() + 2);
  return dims;
}

bool IsOnePixel(const ConvProblem& p, const Spatial& size) {
  return std::all_of(size.begin(), size.begin() + p.spatial_rank, [](int64_t extent) { return extent == 1; });
}

// Channels-first images of one pixel have three strides of 1. With more than a bias behind the convolution the library
// takes them for others (cuDNN 9.19, Swish behind 16-bit ones: only the first image is written).
bool IsAmbiguous(const ConvProblem& p) {
  return p.layout == Layout::kChannelsFirst && (IsOnePixel(p, p.in) || IsOnePixel(p, p.out));
}

// One operation behind the convolution: the value so far and another operand, where there is one.
struct Step {
  PointwiseMode mode;
  TensorIndex operand = kNoTensor;
  float least = 0.0f, most = std::numeric_limits<float>::infinity(), slope = 0.0f;  // of kRelu
};

// Stands for the value that an activation begins with.
constexpr TensorIndex kArgument = -2;

// The activation as operations of the library; none for kNone.
std::vector<Step> StepsOf(Activation activation, ActivationParameters parameters, OpGraph& graph, int rank) {
  constexpr PointwiseMode kRelu = PointwiseMode::kRelu, kMul = PointwiseMode::kMul, kAdd = PointwiseMode::kAdd;
  const auto [a, b] = parameters;
  const auto scalar = [&](float value) { return graph.Scalar(value, rank); };
  switch (activation) {
    case Activation::kRelu:
      return {{.mode = kRelu}};
    case Activation::kClip:
      return {{.mode = kRelu, .least = a, .most = b}};
    case Activation::kLeakyRelu:
      return {{.mode = kRelu, .slope = a}};
    case Activation::kGeluErf:
      return {{PointwiseMode::kGeluErf}};
    case Activation::kGeluTanh:
      return {{PointwiseMode::kGeluTanh}};
    case Activation::kSigmoid:
      return {{PointwiseMode::kSigmoid}};
    case Activation::kSilu:
      return {{PointwiseMode::kSilu}};
    case Activation::kTanh:
      return {{PointwiseMode::kTanh}};
    case Activation::kHardSigmoid:
      return {{kMul, scalar(a)}, {kAdd, scalar(b)}, {.mode = kRelu, .most = 1}};
    case Activation::kHardSwish:
      return {{kMul, scalar(1.0f / 6)}, {kAdd, scalar(0.5f)}, {.mode = kRelu, .most = 1}, {kMul, kArgument}};
    case Activation::kNone:
      break;
  }
  return {};
}

bool AddsLast(const ConvProblem& p) { return p.epilogue.residual() && p.epilogue.adds_last; }

// Whether the library has the activation: constants are of fp32.
bool IsOffered(const ConvProblem& p) {
  const Activation activation = p.epilogue.activation;
  const bool has_constants = activation == Activation::kHardSigmoid || activation == Activation::kHardSwish;
  return !has_constants || p.types.compute == DataType::kFloat;
}

}  // namespace

std::span<const ConvForm> FormsOf(const ConvProblem& p) {
  static constexpr ConvForm kAll[] = {ConvForm::kResidualBias, ConvForm::kBiasResidual, ConvForm::kRedundant,
                                      ConvForm::kBiasOnly, ConvForm::kSumOnly};
  static constexpr ConvForm kOneOrder[] = {ConvForm::kBiasResidual, ConvForm::kRedundant, ConvForm::kBiasOnly,
                                           ConvForm::kSumOnly};
  static constexpr ConvForm kNoBias[] = {ConvForm::kBiasResidual, ConvForm::kRedundant, ConvForm::kSumOnly};
  static constexpr ConvForm kBiasAlone[] = {ConvForm::kBiasOnly, ConvForm::kRedundant, ConvForm::kSumOnly};
  static constexpr ConvForm kBiasAndRest[] = {ConvForm::kBiasOnly, ConvForm::kSumOnly};
  static constexpr ConvForm kSumAlone[] = {ConvForm::kSumOnly, ConvForm::kRedundant};
  static constexpr ConvForm kSum[] = {ConvForm::kSumOnly};
  const bool acts = p.epilogue.activation != Activation::kNone;
  const bool more = p.epilogue.residual() || acts;
  if ((acts && !IsOffered(p)) || (more && IsAmbiguous(p)))
    return p.epilogue.bias ? kBiasAndRest : std::span<const ConvForm>(kSum);
  if (!more && !p.epilogue.bias) return kSumAlone;
  if (!more) return kBiasAlone;
  if (!p.epilogue.bias) return kNoBias;
  return p.epilogue.residual() && !p.epilogue.adds_last ? std::span<const ConvForm>(kAll)
                                                        : std::span<const ConvForm>(kOneOrder);
}

std::optional<ConvForm> UncompiledForm(const ConvProblem& p) {
  const Activation activation = p.epilogue.activation;
  const bool is_plain = activation == Activation::kNone || (activation == Activation::kRelu && !AddsLast(p));
  if (is_plain || !IsOffered(p)) return std::nullopt;
  return p.epilogue.bias ? ConvForm::kBiasOnly : ConvForm::kSumOnly;
}

std::string FormChoice(ConvForm form) { return StrCat('f', static_cast<int>(form)); }

Epilogue RemainingOf(const ConvProblem& p, ConvForm form) {
  Epilogue remaining;
  if (form == ConvForm::kBiasOnly || form == ConvForm::kSumOnly) {
    remaining.beta = p.epilogue.beta;
    remaining.activation = p.epilogue.activation;
    remaining.parameters = p.epilogue.parameters;
    remaining.adds_last = p.epilogue.adds_last;
    remaining.bias = p.epilogue.bias && form == ConvForm::kSumOnly;
  }
  return remaining;
}

OpGraph ConvolutionGraph(const ConvProblem& p, ConvForm form) {
  OpGraph graph;
  graph.allow_tf32 = p.allow_tf32;
  graph.deterministic = p.deterministic;
  const bool forward = p.direction == Direction::kForward;
  const bool fuses_bias = p.epilogue.bias && form != ConvForm::kSumOnly;
  const bool fuses_rest = form <= ConvForm::kRedundant;
  const auto tensor = [&](int64_t dim0, int64_t dim1, const Shape& spatial, int64_t pitch = 0) {
    const Shape dims = DimsOf(dim0, dim1, spatial);
    return graph.Tensor(p.types.a, dims, StridesOf(dims, p.layout, pitch));
  };
  const TensorIndex x = tensor(p.batch, p.in_channels, SpatialOf(p, p.in, 1), p.x_pitch);
  const TensorIndex w = tensor(forward ? p.out_channels : p.in_channels,
                               (forward ? p.in_channels : p.out_channels) / p.groups, SpatialOf(p, p.kernel, 1));
  const Shape out = SpatialOf(p, p.out, 1);
  const TensorIndex bias = fuses_bias ? tensor(1, p.out_channels, Shape(RankOf(p), 1)) : kNoTensor;
  const bool adds = fuses_rest && p.epilogue.residual();
  const TensorIndex residual = adds ? tensor(p.batch, p.out_channels, out, p.residual_pitch) : kNoTensor;
  const TensorIndex y = tensor(p.batch, p.out_channels, out, p.y_pitch);

  std::vector<Step> steps;  // behind the sum
  if (residual != kNoTensor && form == ConvForm::kResidualBias) steps.push_back({PointwiseMode::kAdd, residual});
  if (bias != kNoTensor) steps.push_back({PointwiseMode::kAdd, bias});
  const bool adds_later = residual != kNoTensor && form != ConvForm::kResidualBias;
  if (adds_later && !p.epilogue.adds_last) steps.push_back({PointwiseMode::kAdd, residual});
  const size_t first_of_activation = steps.size();
  if (fuses_rest) {
    std::ranges::copy(StepsOf(p.epilogue.activation, p.epilogue.parameters, graph, RankOf(p) + 2),
                      std::back_inserter(steps));
  }
  if (adds_later && p.epilogue.adds_last) steps.push_back({PointwiseMode::kAdd, residual});
  if (form == ConvForm::kRedundant) {  // ReLU twice is ReLU once
    const bool relu = p.epilogue.activation == Activation::kRelu && !AddsLast(p);
    steps.push_back({relu ? PointwiseMode::kRelu : PointwiseMode::kIdentity});
  }

  const Shape y_dims = graph.at(y).dims, y_strides = StridesOf(y_dims, p.layout);
  const auto next_virtual = [&] {  // its layout is y's, so that nothing is transposed in between
    const TensorIndex index = graph.Tensor(p.types.compute, y_dims, y_strides);
    graph.tensors.back().is_virtual = true;
    return index;
  };
  GraphOp sum{.kind = forward ? OpKind::kConvolution : OpKind::kConvolutionData,
              .compute = p.types.compute,
              .a = x,
              .b = w,
              .window = {SpatialOf(p, p.pad_begin, 0), Shape(RankOf(p), 0), SpatialOf(p, p.stride, 1),
                         SpatialOf(p, p.dilation, 1)}};
  for (int d = 0; d < p.spatial_rank; ++d) sum.window.pad_end[d] = PadEnd(p, static_cast<size_t>(d));
  TensorIndex last = sum.result = steps.empty() ? y : next_virtual();
  graph.ops.push_back(std::move(sum));
  TensorIndex argument = kNoTensor;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (i == first_of_activation) argument = last;
    const Step& step = steps[i];
    const TensorIndex result = i + 1 == steps.size() ? y : next_virtual();
    last = graph.Pointwise(step.mode, last, step.operand == kArgument ? argument : step.operand, result);
    GraphOp& op = graph.ops.back();
    op.compute = p.types.compute;
    op.least = step.least, op.most = step.most, op.slope = step.slope;
  }
  return graph;
}

}  // namespace cudaep::dnn
