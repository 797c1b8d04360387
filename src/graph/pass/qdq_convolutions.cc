#include "graph/pass/qdq_convolutions.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/strings.h"
#include "graph/ir/constants.h"
#include "graph/pass/activation_match.h"
#include "graph/pass/layout.h"
#include "graph/pass/quantization.h"
#include "graph/pass/rewrite.h"
#include "graph/pass/stem.h"
#include "kernels/conv/quantized_conv.h"
#include "kernels/conv/stem_conv.h"
#include "ops/conv/conv_plan.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

constexpr size_t kInputs = 6, kResidual = 5;
// What sums and biases are multiplied by may not become infinite, or zero times that is no number.
constexpr double kLargestFactor = 0x1p96;

class Convolver {
 public:
  explicit Convolver(const Rewriter& rewrite) : rewrite_(rewrite), graph_(rewrite.graph) {}

  void Visit(int index) const {
    const ir::Node& conv = rewrite_.node(index);
    if (conv.on_host || !conv.Is("Conv")) return;
    const auto x = CodedValueOf(graph_, rewrite_.match, conv.inputs[0]);
    const auto w = CodedValueOf(graph_, rewrite_.match, conv.inputs[1]);
    if (!x || !w) return;
    if (const char* const why = Refusal(conv, x->linear, w->linear)) return rewrite_.Miss(index, why);
    ir::Node made = rewrite_.Instead(index, ops::kFusedDomain, "QuantizedConv", 1);
    made.attributes = conv.attributes;
    made.attributes["x_zero"] = int64_t{x->linear.zero()};
    made.inputs.assign(kInputs, -1);
    made.inputs[0] = x->linear.codes, made.inputs[1] = w->linear.codes;
    AddVectors(conv, x->linear, w->linear, made);
    const int own = FollowCodes(made, index);
    const bool is_stem = graph_.value(w->linear.codes).constant.dims()[1] < kernels::kQuantizedConvPack;
    const int last = is_stem ? own : FollowSum(made, own);
    made.outputs = rewrite_.node(last).outputs;
    const bool done = is_stem ? ReplaceStem(last, *x, std::move(made)) : rewrite_.Replace(last, std::move(made));
    if (!done) rewrite_.Miss(index, "no kernel takes the integers");
  }

 private:
  // Null: nothing speaks against it.
  const char* Refusal(const ir::Node& conv, const Quantization& x, const Quantization& w) const {
    const ir::Value& weights = graph_.value(w.codes);
    if (!weights.is_constant() || weights.constant.rank != 4)
      return "weights are no constant of two spatial dimensions";
    if (!x.is_uniform()) return "the image has several scales";
    if (!w.is_uniform() && w.axis != 0) return "scales of the weights are not those of output channels";
    if (x.type != DataType::kInt8 || w.type != DataType::kInt8) return "codes are of uint8 outside of the region";
    if (w.has_zeros()) return "weights have zero points";
    if (double{x.scale()} * std::ranges::max(w.scales) > kLargestFactor) return "scales are too large";
    if (graph_.value(conv.outputs[0]).type != DataType::kFloat) return "the convolution is not of fp32";
    const Dims dims = weights.constant.dims();
    if (ElementCount(dims.subspan(1)) > kMostSummed) return "sums may not fit 32 bits";
    if (IntAttribute(conv, "group", 1) != 1) return "convolutions in groups have no kernel of integers";
    const auto bias = BiasOf(conv);
    if (conv.inputs.size() > 2 && conv.inputs[2] >= 0 && !bias) return "the bias is no constant";
    if (bias && static_cast<int64_t>(bias->size()) != dims[0]) return "the bias is not one of output channels";
    return nullptr;
  }

  std::optional<std::vector<double>> BiasOf(const ir::Node& conv) const {
    return conv.inputs.size() > 2 && conv.inputs[2] >= 0 ? ir::NumbersOf(graph_, conv.inputs[2]) : std::nullopt;
  }

  // Scales, biases, and what x's zero point takes off: whole numbers, so what is left of two large ones is exact.
  void AddVectors(const ir::Node& conv, const Quantization& x, const Quantization& w, ir::Node& made) const {
    const std::vector<int32_t> codes = *CodesOf(graph_, w.codes);
    const int64_t channels = graph_.value(w.codes).constant.dims()[0];
    const size_t inner = codes.size() / static_cast<size_t>(std::max<int64_t>(channels, 1));
    std::vector<double> scales, shifts;
    for (size_t m = 0; m < static_cast<size_t>(channels); ++m) {
      int64_t sum = 0;
      for (size_t k = 0; k < inner; ++k) sum += codes[m * inner + k];
      scales.push_back(double{x.scale()} * w.scales[w.is_uniform() ? 0 : m]);
      shifts.push_back(-static_cast<double>(sum * x.zero()));
    }
    const std::string name = graph_.value(w.codes).name;
    const auto vector = [&](DataType type, const std::vector<double>& numbers) {
      return graph_.AddConstant(name, ir::MakeNumbers(type, {channels}, numbers));
    };
    made.inputs[2] = vector(DataType::kFloat, scales);
    if (const auto bias = BiasOf(conv)) made.inputs[3] = vector(DataType::kFloat, *bias);
    if (x.zero() != 0) made.inputs[4] = vector(DataType::kInt32, shifts);
  }

  // Bounds that follow a value which nothing else reads; the last node's index, or `index`.
  int FollowBounds(ir::Node& made, const char* name, int index) const {
    const int value = rewrite_.node(index).outputs[0];
    const auto found = MatchActivation(graph_, rewrite_.match.uses(), value, rewrite_.settings());
    if (!found) return index;
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    if (found->activation == Activation::kRelu) {
      made.attributes[name] = std::vector<float>{0, kInfinity};
    } else if (found->activation == Activation::kClip) {
      made.attributes[name] = std::vector<float>{found->parameters.a, found->parameters.b};
    } else {
      return index;
    }
    return found->nodes.back();
  }

  // The QuantizeLinear that alone reads what a node makes; -1: there is none.
  int QuantizeOf(int index, std::optional<Quantization>& result) const {
    const int next = rewrite_.match.OnlyReader(rewrite_.node(index).outputs[0]);
    if (next < 0 || rewrite_.IsTaken(next)) return -1;
    result = QuantizationOf(graph_, rewrite_.node(next), "QuantizeLinear");
    return result && result->is_uniform() ? next : -1;
  }

  // Of the scales and biases.
  double LargestOf(const ir::Node& made) const {
    double largest = 0;
    for (const size_t vector : {size_t{2}, size_t{3}}) {
      if (made.inputs[vector] < 0) continue;
      const std::vector<double> numbers = *ir::NumbersOf(graph_, made.inputs[vector]);
      for (const double number : numbers) largest = std::max(largest, std::abs(number));
    }
    return largest;
  }

  static void SetCoding(ir::Node& made, const std::string& what, const Quantization& linear) {
    made.attributes[what + "_scale"] = linear.scale();
    made.attributes[what + "_zero"] = int64_t{linear.zero()};
  }

  // Up to the convolution's own codes. Without them its numbers are the result.
  int FollowCodes(ir::Node& made, int index) const {
    std::optional<Quantization> result;
    ir::Node bounded = made;
    const int quantize = QuantizeOf(FollowBounds(bounded, "bounds", index), result);
    if (quantize < 0 || LargestOf(made) / result->scale() > kLargestFactor) return index;
    made = std::move(bounded);
    SetCoding(made, "y", *result);
    return quantize;
  }

  // From those over the sum of what they stand for with what other codes stand for, to the sum's.
  int FollowSum(ir::Node& made, int quantize) const {
    const int codes = rewrite_.node(quantize).outputs[0];
    if (graph_.value(codes).type != DataType::kInt8) return quantize;
    const int dequantize = rewrite_.match.OnlyReader(codes);
    if (dequantize < 0) return quantize;
    const auto own = QuantizationOf(graph_, rewrite_.node(dequantize), "DequantizeLinear");
    const auto coded = QuantizationOf(graph_, rewrite_.node(quantize), "QuantizeLinear");
    if (!own || !coded || !own->IsSame(*coded)) return quantize;
    const int add = rewrite_.match.OnlyReader(own->real);
    if (add < 0 || rewrite_.IsTaken(add) || !rewrite_.node(add).Is("Add")) return quantize;
    const int other = Matcher::Other(rewrite_.node(add), own->real);
    const auto residual = other < 0 ? std::nullopt : CodedValueOf(graph_, rewrite_.match, other);
    if (!residual || !residual->linear.is_uniform() || graph_.value(residual->linear.codes).is_constant()) {
      return quantize;
    }
    if (!graph_.SameDims(other, own->real)) {
      rewrite_.Miss(add, "the sum is not stated to have the dimensions of the convolution");
      return quantize;
    }
    ir::Node summed = made;
    std::optional<Quantization> result;
    const int last = QuantizeOf(FollowBounds(summed, "sum_bounds", add), result);
    if (last < 0 || graph_.value(residual->linear.codes).type != result->type) return quantize;
    made = std::move(summed);
    made.inputs[kResidual] = residual->linear.codes;
    SetCoding(made, "residual", residual->linear);
    SetCoding(made, "sum", *result);
    return last;
  }

  // Of few channels: a kernel of its own, or one to which each of its windows along the rows of the image is one pixel,
  // whose channels it reads at once. Either way its result has the channels last.
  bool ReplaceStem(int last, const CodedValue& x, ir::Node conv) const {
    const ir::Value image = graph_.value(conv.inputs[0]), result = graph_.value(conv.outputs[0]);
    const auto parsed = ops::ParseConv(ir::NodeInfo(graph_, conv, rewrite_.settings()));
    if (!parsed.ok() || !image.dims || image.dims->size() != 4 || !result.dims || result.dims->size() != 4) {
      return false;
    }
    const int first = conv.outputs[0];
    conv.outputs[0] = AddInLast(graph_, first);
    const ir::Node turn = LayoutChange(graph_, conv.outputs[0], first, false);
    const Shape w(graph_.value(conv.inputs[1]).constant.dims());
    const bool may_be_stem = conv.attributes.contains("y_scale") && w[1] <= kernels::kMostStemChannels;
    if (may_be_stem && rewrite_.Replace(last, turn, {StemOf(conv)})) return true;
    const int64_t channels = AlignUp(w[1] * w[3], int64_t{kernels::kQuantizedConvPack});
    ir::Node windows{.domain = ops::kFusedDomain,
                     .op_type = "WindowsToChannels",
                     .attributes = {{"channels", channels},
                                    {"kernel_shape", std::vector<int64_t>{w[3]}},
                                    {"fill", int64_t{x.linear.zero()}}},
                     .inputs = {conv.inputs[0]},
                     .sources = {StrCat("layout of '", image.name, "'")}};
    SplitColumns(parsed.value().window, conv, windows);
    conv.attributes.erase("kernel_shape");
    conv.attributes["channels_last"] = int64_t{1};
    const std::vector<ir::Dim> pixels{(*image.dims)[0], (*image.dims)[2], (*result.dims)[3], {.size = channels}};
    conv.inputs[0] = graph_.AddValue({.name = image.name, .type = image.type, .dims = pixels});
    windows.outputs = {conv.inputs[0]};
    const std::vector<int32_t> codes = *CodesOf(graph_, conv.inputs[1]);
    const std::string name = graph_.value(conv.inputs[1]).name;
    conv.inputs[1] = graph_.AddConstant(
        name, RepackedWeights(DataType::kInt8, std::vector<double>(codes.begin(), codes.end()), w, channels, true));
    return rewrite_.Replace(last, turn, {std::move(windows), std::move(conv)});
  }

  // Its weights are 16-bit floats.
  ir::Node StemOf(const ir::Node& conv) const {
    ir::Node stem = conv;
    stem.op_type = "QuantizedStem";
    const ir::Value w = graph_.value(conv.inputs[1]);
    const std::vector<int32_t> codes = *CodesOf(graph_, conv.inputs[1]);
    const std::vector<double> numbers(codes.begin(), codes.end());
    const int weights =
        graph_.AddConstant(w.name, ir::MakeNumbers(DataType::kFloat16, Shape(w.constant.dims()), numbers));
    stem.inputs = {conv.inputs[0], weights, conv.inputs[3], conv.inputs[2]};
    return stem;
  }

  const Rewriter& rewrite_;
  ir::Graph& graph_;
};

}  // namespace

void ConvolveCodes(ir::Graph& graph, const PassContext& context) {
  const Rewriter rewrite(graph, context, Fusion::kQdq);
  const Convolver convolver(rewrite);
  for (int n = 0; n < rewrite.node_count(); ++n) convolver.Visit(n);
  rewrite.PlaceNodesInFront();
}

}  // namespace cudaep::graph
