#include "graph/pass/stem.h"

#include <algorithm>

#include "graph/ir/constants.h"
#include "ops/conv/channels_last.h"
#include "ops/conv/conv_plan.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

constexpr int64_t kPack = 8;  // channels of an image for tensor cores

int64_t FloorDiv(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

// A convolution along one dimension, over blocks of `block` pixels: tap t of the model lies in pixel (t - pad) mod
// block of the tap (t - pad) div block.
struct Blocked {
  int64_t taps = 0, pad_begin = 0, pad_end = 0;
};

// Nothing where the number of windows would differ for some size of the image; that a model states one size is not
// enough, since nobody checks it at Run.
std::optional<Blocked> BlockedOf(int64_t taps, int64_t pad_begin, int64_t pad_end, int64_t block) {
  const int64_t first = FloorDiv(-pad_begin, block), last = FloorDiv(taps - 1 - pad_begin, block);
  Blocked blocked{.taps = last - first + 1, .pad_begin = -first};
  const int64_t room = pad_begin + pad_end - taps;  // windows of n pixels: (n + room) div block + 1
  if (FloorDiv(room, block) != FloorDiv(room - block + 1, block)) return std::nullopt;
  blocked.pad_end = FloorDiv(room, block) + blocked.taps - blocked.pad_begin;
  if (blocked.pad_end < 0) return std::nullopt;
  return blocked;
}

}  // namespace

std::optional<TurnedNode> TurnStem(ir::Graph& graph, const ir::Node& node, const Settings& settings) {
  const ir::NodeInfo info(graph, node, settings);
  const auto constant = info.constant(1);
  const ir::Value& x = graph.value(node.inputs[0]);
  if (!constant || constant->dims.rank() != 4 || !x.dims || x.dims->size() != 4 || x.is_constant()) return std::nullopt;
  const Shape w = constant->dims;
  const auto parsed = ops::ParseConv(info);
  const ir::Value& y = graph.value(node.outputs[0]);
  if (info.has_input(3) || !y.dims || y.dims->size() != 4) return std::nullopt;
  if (!parsed.ok() || parsed.value().groups != 1 || w[1] >= kPack || w.elems() == 0) return std::nullopt;
  const Shape padded{w[0], kPack, w[2], w[3]};
  if (ops::ChannelsLastUseOf(settings, constant->type, 1, padded) != ops::ChannelsLastUse::kGains) return std::nullopt;

  const ops::WindowAttributes& window = parsed.value().window;
  const auto at = [](const std::vector<int64_t>& values, size_t i, int64_t fallback) {
    return values.empty() ? fallback : values[i];
  };
  int64_t block = at(window.strides, 0, 1);
  const bool plain = window.auto_pad == ops::AutoPad::kNotSet && at(window.strides, 1, 1) == block &&
                     at(window.dilations, 0, 1) == 1 && at(window.dilations, 1, 1) == 1;
  std::optional<Blocked> rows, columns;
  if (plain && block > 1 && block <= 16) {
    rows = BlockedOf(w[2], at(window.pads, 0, 0), at(window.pads, 2, 0), block);
    columns = BlockedOf(w[3], at(window.pads, 1, 0), at(window.pads, 3, 0), block);
  }
  TurnedNode turned{.node = node, .images = {}};
  turned.node.domain = ops::kFusedDomain;
  turned.node.since_version = 1;
  turned.node.attributes["channels_last"] = int64_t{1};
  turned.node.attributes.erase("kernel_shape");
  if (rows && columns) {
    turned.node.attributes["strides"] = std::vector<int64_t>{1, 1};
    turned.node.attributes["pads"] =
        std::vector<int64_t>{rows->pad_begin, columns->pad_begin, rows->pad_end, columns->pad_end};
  } else {
    block = 1;
    rows = Blocked{.taps = w[2]};
    columns = Blocked{.taps = w[3]};
  }
  const int64_t top = block == 1 ? 0 : at(window.pads, 0, 0), left = block == 1 ? 0 : at(window.pads, 1, 0);
  const int64_t channels = AlignUp(w[1] * block * block, kPack);
  const Shape dims{w[0], channels, rows->taps, columns->taps};
  const std::vector<double> from = *ir::NumbersOf(graph, node.inputs[1]);
  std::vector<double> to(static_cast<size_t>(dims.elems()), 0);
  size_t next = 0;
  for (int64_t m = 0; m < w[0]; ++m) {
    for (int64_t c = 0; c < w[1]; ++c) {
      for (int64_t i = 0; i < w[2]; ++i) {
        for (int64_t j = 0; j < w[3]; ++j) {
          const int64_t y_tap = FloorDiv(i - top, block), x_tap = FloorDiv(j - left, block);
          const int64_t inside = (i - top - y_tap * block) * block + (j - left - x_tap * block);
          const int64_t row = y_tap - FloorDiv(-top, block), column = x_tap - FloorDiv(-left, block);
          const int64_t channel = inside * w[1] + c;
          to[static_cast<size_t>(((m * channels + channel) * dims[2] + row) * dims[3] + column)] = from[next++];
        }
      }
    }
  }
  std::vector<ir::Dim> image{(*x.dims)[0], {}, {}, {.size = channels}};
  for (size_t d = 0; d < 2; ++d) {
    const ir::Dim& size = (*x.dims)[d + 2];
    image[d + 1] = block == 1 ? size : ir::Dim{.size = size.known() ? CeilDiv(size.size, block) : kUnknownDim};
  }
  const std::string name = x.name, weights = graph.value(node.inputs[1]).name;
  const DataType type = x.type;
  turned.node.inputs[1] = graph.AddConstant(weights, ir::MakeNumbers(type, dims, to));
  turned.node.inputs[0] = graph.AddValue({.name = name, .type = type, .dims = std::move(image)});
  turned.before.push_back({.domain = ops::kFusedDomain,
                           .op_type = "SpaceToChannels",
                           .attributes = {{"block", block}, {"channels", channels}},
                           .inputs = {node.inputs[0]},
                           .outputs = {turned.node.inputs[0]},
                           .sources = {StrCat("layout of '", name, "'")}});
  return turned;
}

}  // namespace cudaep::graph
