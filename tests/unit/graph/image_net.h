// Images and convolutions over them, and what the passes make of those with their channels last.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "graph/ir/constants.h"
#include "graph/pass/pass.h"
#include "graph_builder.h"
#include "ops/image_layout.h"

namespace cudaep::graph {

class ImageTest : public ::testing::Test {
 protected:
  static constexpr int64_t kChannels = 16;
  inline static const std::vector<int64_t> kToLast{0, 2, 3, 1}, kToFirst{0, 3, 1, 2};

  static std::vector<ir::Dim> Image(int64_t channels, int64_t size = 8) {
    return {{kUnknownDim, "n"}, {channels}, {size}, {size}};
  }
  // A convolution of 3x3 over an image of 8x8 and `from` channels, to `to`.
  int Conv(int x, int64_t from = kChannels, int64_t to = kChannels, ops::Attributes attributes = {}) {
    attributes["pads"] = std::vector<int64_t>{1, 1, 1, 1};
    const int64_t groups = attributes.contains("group") ? std::get<int64_t>(attributes["group"]) : 1;
    return net.Add("Conv", 11, {x, net.Constant("w", {to, from / groups, 3, 3})}, Image(to), attributes);
  }
  void Run() {
    Settings settings = WithoutChains();
    settings.fusion_skip.Add(Fusion::kConvEpilogue);
    settings.fusion_skip.Add(Fusion::kImageParts);
    notes = RunPasses(net.graph, settings);
    for (const ir::Node& node : net.graph.nodes) {
      if (node.on_host) continue;
      const ops::KernelRow* const row = ops::FindRow(node.domain, node.op_type, node.since_version);
      ASSERT_NE(row, nullptr) << node.op_type;
      EXPECT_TRUE(ops::MakeOperator(ir::NodeInfo(net.graph, node, settings), *row).ok()) << node.op_type;
    }
    CheckOrder();
  }
  // What is read was made before.
  void CheckOrder() const {
    std::vector<bool> there(net.graph.values.size(), false);
    for (size_t v = 0; v < there.size(); ++v) {
      there[v] = net.graph.values[v].is_constant() || net.graph.values[v].input >= 0;
    }
    for (const ir::Node& node : net.graph.nodes) {
      for (const int input : node.inputs) EXPECT_TRUE(input < 0 || there[static_cast<size_t>(input)]) << node.op_type;
      for (const int output : node.outputs) {
        if (output >= 0) there[static_cast<size_t>(output)] = true;
      }
    }
    for (const int output : net.graph.outputs) EXPECT_TRUE(there[static_cast<size_t>(output)]);
  }
  std::vector<int64_t> SizesOf(int value) const {
    std::vector<int64_t> sizes;
    for (const ir::Dim& dim : *net.graph.value(value).dims) sizes.push_back(dim.size);
    return sizes;
  }
  const ir::Node& At(size_t node) const { return net.graph.nodes[node]; }
  template <class T>
  T AttributeOf(size_t node, const char* name) const {
    return std::get<T>(At(node).attributes.at(name));
  }
  std::vector<int64_t> Ints(int value) const {
    const auto ints = net.graph.value(value).constant.host<int64_t>();
    return {ints.begin(), ints.end()};
  }

  Builder net{DataType::kFloat16};
  int x = net.Input("x", Image(kChannels));
  std::vector<FusionNote> notes;
};

}  // namespace cudaep::graph
