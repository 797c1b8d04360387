#include "graph/pass/layout_rules.h"

#include <algorithm>
#include <cstring>

#include "graph/ir/constants.h"
#include "graph/pass/layout.h"
#include "graph/pass/stem.h"
#include "ops/conv/channels_last.h"
#include "ops/norm/channel_groups.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

constexpr int kFewestDims = 3;  // of an image: batch, channels and a spatial one

// A node on its way to channels last. Functions return whether it has such a form.
class Turning {
 public:
  Turning(ir::Graph& graph, const ir::Node& node, const Settings& settings)
      : graph_(graph), settings_(settings), made_{.node = node, .images = {}} {}

  // False where the model does not state the rank of a result.
  bool StatesResults() const {
    const std::vector<int>& outputs = made_.node.outputs;
    return !made_.makes_images ||
           std::all_of(outputs.begin(), outputs.end(), [&](int output) { return output < 0 || IsImage(output); });
  }
  TurnedNode Take() { return std::move(made_); }

  bool Convolution() {
    const ir::NodeInfo info(graph_, made_.node, settings_);
    const auto w = info.constant(1);
    if (!w || w->dims.rank() < kFewestDims || !Image(0)) return false;
    if (info.has_input(3) && !Image(3)) return false;
    made_.node.domain = ops::kFusedDomain;
    made_.node.since_version = 1;
    made_.node.attributes["channels_last"] = int64_t{1};
    const auto use = ops::ChannelsLastUseOf(settings_, w->type, info.IntOr("group", 1), w->dims);
    made_.gains = use == ops::ChannelsLastUse::kGains;
    return use != ops::ChannelsLastUse::kLoses;
  }

  // Codes in, and codes added to the result. A network's first one has its channels last as it was made.
  bool QuantizedConvolution() {
    if (attribute("channels_last") || !Image(0) || (HasInput(5) && !Image(5))) return false;
    made_.node.attributes["channels_last"] = int64_t{1};
    return made_.gains = true;
  }

  // The mean of codes.
  bool CodesPool() {
    if (IntOr("channels_last", 0) != 0 || !Image(0)) return false;
    made_.node.attributes["channels_last"] = int64_t{1};
    return true;
  }

  // By one scale, wherever a code lies. One of a block is of that block's dimension.
  bool Linear() {
    const ir::Value& scale = graph_.value(made_.node.inputs[1]);
    return scale.is_constant() && scale.constant.elems() == 1 && IntOr("block_size", 0) == 0 && Elementwise();
  }

  // Operators that the host has for channels-last images too.
  bool InNhwcDomain() {
    ir::Node& node = made_.node;
    if (node.outputs.size() > 1 || (attribute("spatial") && IntOr("spatial", 1) == 0)) return false;
    node.domain = ops::kNhwcDomain;
    return ops::FindRow(node.domain, node.op_type, node.since_version) != nullptr && Image(0);
  }

  bool GroupNorm() {
    if (!Image(0)) return false;
    const ir::Value& image = graph_.value(made_.node.inputs[0]);
    made_.node.attributes["channels_last"] = int64_t{1};
    return ops::TakesChannelsLast(image.type, (*image.dims)[1].size, IntOr("groups", 1));
  }

  // Inputs are broadcast to images.
  bool Elementwise() {
    if (!StatesResults()) return false;
    const int rank = RankOf(made_.node.outputs[0]);
    for (size_t i = 0; i < made_.node.inputs.size(); ++i) {
      const int input = made_.node.inputs[i];
      if (input < 0) continue;
      const ir::Value& value = graph_.value(input);
      if (!value.dims) return false;
      const bool one = std::all_of(value.dims->begin(), value.dims->end(), [](auto& dim) { return dim.size == 1; });
      if (one && static_cast<int>(value.dims->size()) < rank) continue;
      if (value.is_constant() ? !Constant(i, rank) : RankOf(input) != rank || !Image(i)) return false;
    }
    return !made_.images.empty();
  }

  // Along the dimension of attribute `axis`; joined are all inputs, or the first.
  bool AlongAxis(std::optional<int64_t> fallback, bool all_inputs) {
    const size_t count = all_inputs ? made_.node.inputs.size() : 1;
    for (size_t i = 0; i < count; ++i) {
      if (!Image(i)) return false;
    }
    if (!attribute("axis") && !fallback) return false;
    const auto axis = InLast(IntOr("axis", fallback.value_or(0)));
    if (axis) made_.node.attributes["axis"] = *axis;
    return axis.has_value();
  }

  // Over axes of an attribute or a constant. Without those dimensions only [batch, channels] may be left.
  bool Reduction() {
    if (!Image(0)) return false;
    const auto rank = RankOf(made_.node.inputs[0]);
    std::vector<int64_t> axes;
    if (const auto* given = attribute("axes")) {
      axes = std::get<std::vector<int64_t>>(*given);
    } else if (const auto ints = ConstantInts(1)) {
      axes = *ints;
    }
    if (axes.empty()) return false;
    const auto last = AxesInLast(axes);
    if (!last) return false;
    if (IntOr("keepdims", 1) == 0) {
      made_.makes_images = false;
      for (int64_t d = 1; d + 1 < rank; ++d) {
        if (std::count(last->begin(), last->end(), d) == 0) return false;
      }
      if (static_cast<int>(last->size()) != rank - 2) return false;
    }
    if (attribute("axes")) {
      made_.node.attributes["axes"] = *last;
    } else {
      made_.node.inputs[1] = AddInts(graph_, NameOf(1), *last);
    }
    return true;
  }

  bool Slice() {
    const auto axes = ConstantInts(3);
    if (!axes || !Image(0)) return false;
    const auto last = AxesInLast(*axes);
    if (!last || (graph_.value(made_.node.inputs[3]).type != graph_.value(made_.node.inputs[1]).type)) return false;
    if (graph_.value(made_.node.inputs[3]).type != DataType::kInt64) return false;
    made_.node.inputs[3] = AddInts(graph_, NameOf(3), *last);
    return true;
  }

  // Amounts of all dimensions: those before the data, then those after it.
  bool Pad() {
    const auto pads = ConstantInts(1);
    if (!pads || HasInput(3) || !Image(0)) return false;
    const int rank = RankOf(made_.node.inputs[0]);
    if (static_cast<int>(pads->size()) != 2 * rank) return false;
    std::vector<int64_t> order = OrderToLast(rank);
    for (int d = 0; d < rank; ++d) order.push_back(order[static_cast<size_t>(d)] + rank);
    made_.node.inputs[1] = AddInts(graph_, NameOf(1), Ordered(*pads, order));
    return true;
  }

  // Between images of as many channels, whose pixels are in a row or not, as a patch embedding's become tokens. The
  // model states how many there are: with one dimension left open there would be no empty batches.
  bool Reshape() {
    if (!Image(0) || !StatesResults()) return false;
    ir::Node& node = made_.node;
    const std::vector<ir::Dim>&from = *graph_.value(node.inputs[0]).dims, &to = *graph_.value(node.outputs[0]).dims;
    if (!to[0].Equals(from[0]) || !to[1].known() || !to[1].Equals(from[1])) return false;
    std::vector<int64_t> shape{0};  // the batch as it is
    for (size_t d = 2; d < to.size(); ++d) shape.push_back(to[d].size);
    shape.push_back(to[1].size);
    if (std::any_of(shape.begin() + 1, shape.end(), [](int64_t size) { return size <= 0; })) return false;
    node.attributes.erase("allowzero");
    node.inputs[1] = AddInts(graph_, NameOf(1), shape);
    return true;
  }

  // Scales or sizes of all dimensions, in host memory.
  bool Resize() {
    if (!Image(0) || attribute("axes") || IsText("coordinate_transformation_mode", "tf_crop_and_resize")) return false;
    const bool has_roi = made_.node.Is("Resize") && made_.node.since_version >= 11;
    for (const size_t i : has_roi ? std::vector<size_t>{2, 3} : std::vector<size_t>{1}) {
      if (!HasInput(i)) continue;
      const int given = made_.node.inputs[i];
      const auto dims = graph_.value(given).dims;
      if (!dims || dims->size() != 1) return false;
      if ((*dims)[0].size == 0) continue;
      const int picked = graph_.AddValue({.name = NameOf(i), .type = graph_.value(given).type, .dims = dims});
      if (graph_.value(given).type == DataType::kFloat16) return false;  // no shape arithmetic in it
      made_.before.push_back(PickOnHost(graph_, given, OrderToLast(RankOf(made_.node.inputs[0])), picked));
      made_.node.inputs[i] = picked;
    }
    return true;
  }

 private:
  bool HasInput(size_t i) const { return i < made_.node.inputs.size() && made_.node.inputs[i] >= 0; }
  int RankOf(int value) const { return static_cast<int>(graph_.value(value).dims->size()); }
  const std::string& NameOf(size_t input) const { return graph_.value(made_.node.inputs[input]).name; }

  const ops::Attribute* attribute(const char* name) const {
    const auto found = made_.node.attributes.find(std::string_view(name));
    return found == made_.node.attributes.end() ? nullptr : &found->second;
  }
  int64_t IntOr(const char* name, int64_t fallback) const {
    return ir::NodeInfo(graph_, made_.node, settings_).IntOr(name, fallback);
  }
  bool IsText(const char* name, const char* text) const {
    return ir::NodeInfo(graph_, made_.node, settings_).StringOr(name, "") == text;
  }

  bool IsImage(int value) const {
    const ir::Value& v = graph_.value(value);
    return v.kind == ops::ValueKind::kTensor && v.dims && static_cast<int>(v.dims->size()) >= kFewestDims;
  }
  bool Image(size_t i) {
    if (!HasInput(i)) return false;
    const int value = made_.node.inputs[i];
    if (!IsImage(value) || graph_.value(value).is_constant()) return false;
    made_.images.push_back(i);
    return true;
  }

  // A constant that is broadcast to images, where its other layout is the same memory.
  bool Constant(size_t i, int rank) {
    const ops::TensorView& from = graph_.value(made_.node.inputs[i]).constant;
    if (from.rank > rank) return false;
    std::vector<int64_t> dims(static_cast<size_t>(rank - from.rank), 1);
    dims.insert(dims.end(), from.dim, from.dim + from.rank);
    const int64_t pixels = ElementCount(Dims(dims).subspan(2));
    if (dims[1] != 1 && pixels != 1) return false;
    const std::vector<int64_t> last = Ordered(dims, OrderToLast(rank));
    ops::HostTensor tensor{.type = from.type, .dims = Shape(Dims(last)), .data = {}};
    tensor.data.resize(from.bytes());
    std::memcpy(tensor.data.data(), from.data, from.bytes());
    made_.node.inputs[i] = graph_.AddConstant(NameOf(i), std::move(tensor));
    return true;
  }

  std::optional<std::vector<int64_t>> ConstantInts(size_t i) const {
    return HasInput(i) ? ir::IntsOf(graph_, made_.node.inputs[i]) : std::nullopt;
  }

  std::optional<int64_t> InLast(int64_t axis) const {
    const int rank = RankOf(made_.node.inputs[0]);
    if (axis < -rank || axis >= rank) return std::nullopt;
    return AxisInLast(axis < 0 ? axis + rank : axis, rank);
  }
  std::optional<std::vector<int64_t>> AxesInLast(const std::vector<int64_t>& axes) const {
    std::vector<int64_t> last;
    for (const int64_t axis : axes) {
      const auto turned = InLast(axis);
      if (!turned) return std::nullopt;
      last.push_back(*turned);
    }
    return last;
  }

  ir::Graph& graph_;
  const Settings& settings_;
  TurnedNode made_;
};

using Rule = bool (*)(Turning& turning);

bool Convolution(Turning& t) { return t.Convolution(); }
bool InNhwcDomain(Turning& t) { return t.InNhwcDomain(); }
bool Elementwise(Turning& t) { return t.Elementwise(); }
bool Reduction(Turning& t) { return t.Reduction(); }
bool Linear(Turning& t) { return t.Linear(); }

struct Entry {
  const char* op;
  Rule rule;
  const char* domain = ops::kOnnxDomain;
  int since = 1;
};

constexpr Entry kEntries[] = {
    {"Conv", Convolution},
    {"Conv", Convolution, ops::kFusedDomain},
    {"QuantizedConv", [](Turning& t) { return t.QuantizedConvolution(); }, ops::kFusedDomain},
    {"GroupNorm", [](Turning& t) { return t.GroupNorm(); }, ops::kFusedDomain},
    {"QLinearGlobalAveragePool", [](Turning& t) { return t.CodesPool(); }, ops::kMicrosoftDomain},
    {"QuantizeLinear", Linear},
    {"QuantizeLinear", Linear, ops::kMicrosoftDomain},
    {"DequantizeLinear", Linear},
    {"DequantizeLinear", Linear, ops::kMicrosoftDomain},
    {"AveragePool", InNhwcDomain},
    {"BatchNormalization", InNhwcDomain},
    {"DepthToSpace", InNhwcDomain},
    {"GlobalAveragePool", InNhwcDomain},
    {"GlobalMaxPool", InNhwcDomain},
    {"LRN", InNhwcDomain},
    {"MaxPool", InNhwcDomain},
    {"SpaceToDepth", InNhwcDomain},
    {"Pad", [](Turning& t) { return t.Pad(); }, ops::kOnnxDomain, 11},
    {"Reshape", [](Turning& t) { return t.Reshape(); }, ops::kOnnxDomain, 5},
    {"Resize", [](Turning& t) { return t.Resize(); }},
    {"Upsample", [](Turning& t) { return t.Resize(); }, ops::kOnnxDomain, 9},
    {"Slice", [](Turning& t) { return t.Slice(); }, ops::kOnnxDomain, 10},
    {"Concat", [](Turning& t) { return t.AlongAxis(std::nullopt, true); }},
    {"Split", [](Turning& t) { return t.AlongAxis(0, false); }},
    {"Softmax", [](Turning& t) { return t.AlongAxis(-1, false); }, ops::kOnnxDomain, 13},
    {"LogSoftmax", [](Turning& t) { return t.AlongAxis(-1, false); }, ops::kOnnxDomain, 13},
    {"ReduceL1", Reduction},
    {"ReduceL2", Reduction},
    {"ReduceMax", Reduction},
    {"ReduceMean", Reduction},
    {"ReduceMin", Reduction},
    {"ReduceSum", Reduction},
    {"ReduceSumSquare", Reduction},
    {"Abs", Elementwise},
    {"Add", Elementwise},
    {"Cast", Elementwise},
    {"Celu", Elementwise},
    {"Clip", Elementwise},
    {"Div", Elementwise},
    {"Dropout", Elementwise},
    {"Elu", Elementwise},
    {"Erf", Elementwise},
    {"Exp", Elementwise},
    {"Gelu", Elementwise},
    {"HardSigmoid", Elementwise},
    {"HardSwish", Elementwise},
    {"Identity", Elementwise},
    {"LeakyRelu", Elementwise},
    {"Log", Elementwise},
    {"Max", Elementwise},
    {"Min", Elementwise},
    {"Mish", Elementwise},
    {"Mul", Elementwise},
    {"Neg", Elementwise},
    {"PRelu", Elementwise},
    {"Pow", Elementwise},
    {"Reciprocal", Elementwise},
    {"Relu", Elementwise},
    {"Selu", Elementwise},
    {"Sigmoid", Elementwise},
    {"Softplus", Elementwise},
    {"Softsign", Elementwise},
    {"Sqrt", Elementwise},
    {"Sub", Elementwise},
    {"Sum", Elementwise},
    {"Swish", Elementwise},
    {"Tanh", Elementwise},
    {"Where", Elementwise},
};

// In a graph of its own, where its images lie as they will.
bool IsSupported(const ir::Graph& graph, const TurnedNode& turned, const PassContext& context) {
  ir::Graph alone;
  ir::Node node = turned.node;
  const auto add = [&](int value, bool turns) {
    if (value < 0) return value;
    ir::Value made = graph.value(value);
    if (turns) made.dims = Ordered(*made.dims, OrderToLast(static_cast<int>(made.dims->size())));
    return alone.AddValue(std::move(made));
  };
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    node.inputs[i] = add(node.inputs[i], std::ranges::find(turned.images, i) != turned.images.end());
  }
  for (int& output : node.outputs) output = add(output, turned.makes_images);
  return context.IsSupported(alone, node);
}

}  // namespace

std::optional<TurnedNode> TurnNode(ir::Graph& graph, const ir::Node& node, const PassContext& context) {
  if (node.on_host) return std::nullopt;
  const auto entry = std::ranges::find_if(
      kEntries, [&](const Entry& e) { return node.Is(e.op, e.domain) && node.since_version >= e.since; });
  if (entry == std::end(kEntries)) return std::nullopt;
  Turning turning(graph, node, context.settings);
  std::optional<TurnedNode> turned;
  if (entry->rule(turning) && turning.StatesResults()) {
    turned = turning.Take();
  } else if (node.op_type == "Conv") {
    turned = TurnStem(graph, node, context);
  }
  return turned && IsSupported(graph, *turned, context) ? std::move(turned) : std::nullopt;
}

}  // namespace cudaep::graph
