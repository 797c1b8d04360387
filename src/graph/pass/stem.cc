#include "graph/pass/stem.h"

#include <algorithm>

#include "core/strings.h"
#include "graph/ir/constants.h"
#include "ops/conv/channels_last.h"
#include "ops/conv/conv_plan.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

constexpr int64_t kPack = 8;         // channels of an image for tensor cores
constexpr int64_t kMostOverlap = 4;  // windows that one element is copied to

// The part of a list of spatial attributes that is of dimension `d` of the two; the other one's is `fallback`.
std::vector<int64_t> Only(size_t d, std::vector<int64_t> values, int64_t fallback) {
  for (size_t i = 0; i < values.size(); ++i) values[i] = i % 2 == d ? values[i] : fallback;
  return values;
}
std::vector<int64_t> Columns(const std::vector<int64_t>& values) {
  std::vector<int64_t> columns;
  for (size_t i = 1; i < values.size(); i += 2) columns.push_back(values[i]);
  return columns;
}

// Whether windows lie side by side, so that each element of the image belongs to one at most.
bool ArePatches(const ops::WindowAttributes& window, const Shape& w) {
  const auto all_are = [](const std::vector<int64_t>& values, int64_t wanted) {
    return std::ranges::all_of(values, [&](int64_t value) { return value == wanted; });
  };
  return window.strides == std::vector<int64_t>{w[2], w[3]} && all_are(window.dilations, 1) &&
         all_are(window.pads, 0) &&
         (window.auto_pad == ops::AutoPad::kNotSet || window.auto_pad == ops::AutoPad::kValid);
}

// A product of the patches, as PatchesToChannels has them, and the weights as they are.
TurnedNode TurnPatches(ir::Graph& graph, TurnedNode turned, const Shape& w) {
  ir::Node& node = turned.node;
  const ir::Value x = graph.value(node.inputs[0]), y = graph.value(node.outputs[0]);
  const int weights = node.inputs[1];
  const int64_t channels = AlignUp(w[1] * w[2] * w[3], kPack);
  turned.before.push_back({.domain = ops::kFusedDomain,
                           .op_type = "PatchesToChannels",
                           .attributes = {{"channels", channels}, {"kernel_shape", std::vector<int64_t>{w[2], w[3]}}},
                           .inputs = {node.inputs[0]},
                           .sources = {StrCat("layout of '", x.name, "'")}});
  for (const char* name : {"kernel_shape", "strides", "pads", "dilations", "auto_pad"}) node.attributes.erase(name);
  node.attributes["channels_last"] = int64_t{1};
  std::vector<double> filled;
  const std::vector<double> from = *ir::NumbersOf(graph, weights);
  for (int64_t m = 0; m < w[0]; ++m) {
    const auto filter = from.begin() + m * (w.elems() / w[0]);
    filled.insert(filled.end(), filter, filter + w.elems() / w[0]);
    filled.resize(static_cast<size_t>((m + 1) * channels), 0);
  }
  const std::string name = graph.value(weights).name;
  node.inputs[1] = graph.AddConstant(name, ir::MakeNumbers(x.type, Shape{w[0], channels, 1, 1}, filled));
  node.inputs[0] = graph.AddValue({.name = x.name,
                                   .type = x.type,
                                   .dims = std::vector<ir::Dim>{(*x.dims)[0], (*y.dims)[2], (*y.dims)[3], {channels}}});
  turned.before.back().outputs = {node.inputs[0]};
  return turned;
}

}  // namespace

ops::HostTensor RepackedWeights(DataType type, const std::vector<double>& from, const Shape& w, int64_t channels_to,
                                bool gather) {
  const Shape dims{w[0], channels_to, w[2], gather ? 1 : w[3]};
  std::vector<double> to(static_cast<size_t>(dims.elems()), 0);
  size_t next = 0;
  for (int64_t m = 0; m < w[0]; ++m) {
    for (int64_t c = 0; c < w[1]; ++c) {
      for (int64_t row = 0; row < w[2]; ++row) {
        for (int64_t column = 0; column < w[3]; ++column) {
          const int64_t channel = gather ? column * w[1] + c : c;
          const int64_t at = ((m * channels_to + channel) * w[2] + row) * dims[3] + (gather ? 0 : column);
          to[static_cast<size_t>(at)] = from[next++];
        }
      }
    }
  }
  return ir::MakeNumbers(type, dims, to);
}

void SplitColumns(const ops::WindowAttributes& window, ir::Node& conv, ir::Node& before) {
  for (auto [name, values, fallback] : {std::tuple{"strides", &window.strides, int64_t{1}},
                                        {"dilations", &window.dilations, int64_t{1}},
                                        {"pads", &window.pads, int64_t{0}}}) {
    if (values->empty()) continue;
    before.attributes[name] = Columns(*values);
    conv.attributes[name] = Only(0, *values, fallback);
  }
  if (const auto pad = conv.attributes.find("auto_pad"); pad != conv.attributes.end()) before.attributes.insert(*pad);
}

std::optional<TurnedNode> TurnStem(ir::Graph& graph, const ir::Node& node, const PassContext& context) {
  const Settings& settings = context.settings;
  const ir::NodeInfo info(graph, node, settings);
  const auto constant = info.constant(1);
  const ir::Value &x = graph.value(node.inputs[0]), &y = graph.value(node.outputs[0]);
  if (!constant || constant->dims.rank() != 4 || !x.dims || x.dims->size() != 4 || x.is_constant()) return std::nullopt;
  if (info.has_input(3) || !y.dims || y.dims->size() != 4) return std::nullopt;
  const Shape w = constant->dims;
  const auto parsed = ops::ParseConv(info);
  if (!parsed.ok() || parsed.value().groups != 1 || w[1] >= kPack || w.elems() == 0) return std::nullopt;
  if (ops::ChannelsLastUseOf(settings, constant->type, 1, Shape{w[0], kPack, w[2], w[3]}) !=
      ops::ChannelsLastUse::kGains) {
    return std::nullopt;
  }
  TurnedNode turned{.node = node, .images = {}};
  turned.node.domain = ops::kFusedDomain;
  turned.node.since_version = 1;
  TurnedNode alone = turned;
  alone.node.op_type = "StemConv";
  alone.node.inputs.resize(3, -1);
  if (context.IsSupported(graph, alone.node)) return alone;

  const ops::WindowAttributes& window = parsed.value().window;
  if (ArePatches(window, w)) return TurnPatches(graph, std::move(turned), w);
  const int64_t stride = window.strides.size() == 2 ? window.strides[1] : 1;
  const bool gather = stride > 1 && w[3] <= kMostOverlap * stride;
  const int64_t channels = AlignUp(gather ? w[1] * w[3] : w[1], kPack);

  turned.node.attributes["channels_last"] = int64_t{1};
  turned.node.attributes.erase("kernel_shape");
  ir::Node before{.domain = ops::kFusedDomain,
                  .op_type = "WindowsToChannels",
                  .attributes = {{"channels", channels}, {"kernel_shape", std::vector<int64_t>{gather ? w[3] : 1}}},
                  .inputs = {node.inputs[0]},
                  .sources = {StrCat("layout of '", x.name, "'")}};
  std::vector<ir::Dim> image{(*x.dims)[0], (*x.dims)[2], (*x.dims)[3], {.size = channels}};
  if (gather) {
    SplitColumns(window, turned.node, before);
    image[2] = (*y.dims)[3];
  }
  const ir::Value pixels{.name = x.name, .type = x.type, .dims = std::move(image)};
  const std::string name = graph.value(node.inputs[1]).name;
  turned.node.inputs[1] =
      graph.AddConstant(name, RepackedWeights(pixels.type, *ir::NumbersOf(graph, node.inputs[1]), w, channels, gather));
  turned.node.inputs[0] = graph.AddValue(pixels);
  before.outputs = {turned.node.inputs[0]};
  turned.before.push_back(std::move(before));
  return turned;
}

}  // namespace cudaep::graph
