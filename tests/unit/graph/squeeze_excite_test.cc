// Which gates of channels become one node with the image that they scale.
#include <gtest/gtest.h>

#include "graph/pass/pass.h"
#include "graph_builder.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

using Ints = std::vector<int64_t>;

constexpr int64_t kChannels = 16, kSqueezed = 8;
std::vector<ir::Dim> Image(int64_t channels, int64_t size = 8) {
  return {{kUnknownDim, "n"}, {channels}, {size}, {size}};
}

// What differs from the pattern.
struct Form {
  const char* what;
  bool fuses = false;
  DataType type = DataType::kFloat16;
  bool reduces = false;     // ReduceMean in place of GlobalAveragePool
  Ints axes = {2, 3};       // its
  bool swapped = false;     // gate * image
  bool other = false;       // another image is scaled
  int read_twice = -1;      // which value between: 0 means, 1 squeezed, 2 gates
  int64_t kernel = 1;       // of the second convolution
  bool is_constant = true;  // weights of the first one
  bool residual = false;    // something is added to the gates
};

class SqueezeExciteTest : public ::testing::Test {
 protected:
  void Make(const Form& f) {
    const int x = Conv(net.Input("x", Image(kChannels)), kChannels, kChannels, 3, 8);
    const int means = f.reduces ? net.Add("ReduceMean", 13, {x}, Image(kChannels, 1), {{"axes", f.axes}})
                                : net.Add("GlobalAveragePool", 1, {x}, Image(kChannels, 1));
    const int w = f.is_constant ? net.Constant("w1", {kSqueezed, kChannels, 1, 1})
                                : net.Input("w1", {{kSqueezed}, {kChannels}, {1}, {1}});
    const int inner = net.Add("Conv", 11, {means, w, net.Constant("b1", {kSqueezed})}, Image(kSqueezed, 1));
    const int squeezed = net.Add("LeakyRelu", 16, {inner}, Image(kSqueezed, 1), {{"alpha", 0.25f}});
    int outer = Conv(squeezed, kSqueezed, kChannels, f.kernel, 1);
    if (f.residual) outer = net.Add("Add", 14, {outer, means}, Image(kChannels, 1));
    const int gates = net.Add("Sigmoid", 13, {outer}, Image(kChannels, 1));
    const int image = f.other ? Conv(x, kChannels, kChannels, 3, 8) : x;
    const int y =
        net.Add("Mul", 14, f.swapped ? std::vector{gates, image} : std::vector{image, gates}, Image(kChannels));
    net.Output(Conv(y, kChannels, kChannels, 1, 8));
    if (f.read_twice >= 0) net.Output(std::array{means, squeezed, gates}[static_cast<size_t>(f.read_twice)]);
    notes = RunPasses(net.graph, WithoutChains());
  }
  int Conv(int x, int64_t from, int64_t to, int64_t kernel, int64_t size) {
    const Ints pads(4, kernel / 2);
    return net.Add("Conv", 11, {x, net.Constant("w", {to, from, kernel, kernel})}, Image(to, size), {{"pads", pads}});
  }
  const ir::Node* Fused() const {
    const auto& nodes = net.graph.nodes;
    const auto found = std::ranges::find(nodes, "SqueezeExcite", &ir::Node::op_type);
    return found == nodes.end() ? nullptr : &*found;
  }

  Builder net{DataType::kFloat16};
  std::vector<FusionNote> notes;
};

TEST_F(SqueezeExciteTest, FormsThatFuseAndThatStay) {
  const Form forms[] = {{.what = "pool", .fuses = true},
                        {.what = "bf16", .fuses = true, .type = DataType::kBFloat16},
                        {.what = "means", .fuses = true, .reduces = true},
                        {.what = "counted from behind", .fuses = true, .reduces = true, .axes = {-1, -2}},
                        {.what = "gate first", .fuses = true, .swapped = true},
                        {.what = "fp32", .type = DataType::kFloat},
                        {.what = "rows alone", .reduces = true, .axes = {2}},
                        {.what = "another image", .other = true},
                        {.what = "means leave", .read_twice = 0},
                        {.what = "squeezed leave", .read_twice = 1},
                        {.what = "gates leave", .read_twice = 2},
                        {.what = "more taps", .kernel = 3},
                        {.what = "computed weights", .is_constant = false},
                        {.what = "residual", .residual = true}};
  for (const Form& form : forms) {
    SCOPED_TRACE(form.what);
    net = Builder{form.type};
    Make(form);
    ASSERT_EQ(Fused() != nullptr, form.fuses);
  }
}

TEST_F(SqueezeExciteTest, TheNodeHasWeightsAndActivationsOfBoth) {
  Make({.what = "pool"});
  const ir::Node* const node = Fused();
  ASSERT_NE(node, nullptr);
  EXPECT_EQ(node->domain, ops::kFusedDomain);
  ASSERT_EQ(node->inputs.size(), 5u);
  EXPECT_EQ(net.graph.value(node->inputs[1]).name, "w1");
  EXPECT_EQ(net.graph.value(node->inputs[2]).name, "b1");
  EXPECT_EQ(node->inputs[4], -1);
  EXPECT_EQ(std::get<std::string>(node->attributes.at("squeeze_activation")), "leaky_relu");
  EXPECT_EQ(std::get<std::vector<float>>(node->attributes.at("squeeze_activation_params")), std::vector{0.25f});
  EXPECT_EQ(std::get<std::string>(node->attributes.at("activation")), "sigmoid");
  EXPECT_EQ(Describe(*std::ranges::find(notes, Fusion::kSqueezeExcite, &FusionNote::fusion)),
            "fusion squeeze_excite: GlobalAveragePool + Conv + LeakyRelu + Conv + Sigmoid + Mul");
}

TEST_F(SqueezeExciteTest, ASwitchLeavesItAlone) {
  Settings settings = WithoutChains();
  settings.fusion_skip.Add(Fusion::kSqueezeExcite);
  const int x = Conv(net.Input("x", Image(kChannels)), kChannels, kChannels, 3, 8);
  const int means = net.Add("GlobalAveragePool", 1, {x}, Image(kChannels, 1));
  const int gates = Conv(Conv(means, kChannels, kSqueezed, 1, 1), kSqueezed, kChannels, 1, 1);
  net.Output(net.Add("Mul", 14, {x, gates}, Image(kChannels)));
  RunPasses(net.graph, settings);
  EXPECT_EQ(Fused(), nullptr);
}

}  // namespace
}  // namespace cudaep::graph
