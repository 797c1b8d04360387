// Which pools become part of a network's first convolution.
#include <gtest/gtest.h>

#include "graph/pass/pass.h"
#include "graph_builder.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

using Ints = std::vector<int64_t>;

constexpr int64_t kChannels = 16;
std::vector<ir::Dim> Image(int64_t channels, int64_t size) { return {{kUnknownDim, "n"}, {channels}, {size}, {size}}; }

class StemPoolTest : public ::testing::Test {
 protected:
  // An image of 32 x 32 through a convolution with `attributes`, and its activation's node.
  int Stem(const char* activation = "Relu", ops::Attributes attributes = {}) {
    attributes.insert({{"strides", Ints{2, 2}}, {"pads", Ints{3, 3, 3, 3}}});
    const int image = net.Input("image", Image(3, 32));
    const int y =
        net.Add("Conv", 11, {image, net.Constant("w", {kChannels, 3, 7, 7})}, Image(kChannels, 16), attributes);
    return activation == nullptr ? y : net.Add(activation, 14, {y}, Image(kChannels, 16));
  }
  int Pool(int x, ops::Attributes attributes = {}) {
    attributes.insert({{"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}});
    return net.Add("MaxPool", 12, {x}, Image(kChannels, 8), attributes);
  }
  // Convolutions behind it, for which images lie channels last.
  void Finish(int x) {
    const int y = net.Add("Conv", 11, {x, net.Constant("w", {kChannels, kChannels, 1, 1})}, Image(kChannels, 8));
    net.Output(net.Add("GlobalMaxPool", 1, {y}, Image(kChannels, 1)));
    notes = RunPasses(net.graph, WithoutChains());
    for (const ir::Node& node : net.graph.nodes) {
      const ops::KernelRow* const row = ops::FindRow(node.domain, node.op_type, node.since_version);
      ASSERT_NE(row, nullptr) << node.op_type;
    }
  }
  std::vector<std::string> OfPools() const {
    std::vector<std::string> texts;
    for (const FusionNote& note : notes) {
      if (note.fusion == Fusion::kStemPool) texts.push_back(Describe(note));
    }
    return texts;
  }
  void ExpectLeft(const char* why) const {
    ASSERT_EQ(OfPools().size(), 1u);
    EXPECT_NE(OfPools()[0].find(why), std::string::npos) << OfPools()[0];
    EXPECT_FALSE(net.graph.nodes[0].attributes.contains("max_pool"));
  }

  Builder net{DataType::kFloat16};
  std::vector<FusionNote> notes;
};

TEST_F(StemPoolTest, AMaxPoolIsPartOfTheStem) {
  Finish(Pool(Stem(), {{"pads", Ints{1, 1, 1, 1}}, {"ceil_mode", int64_t{1}}}));
  ASSERT_EQ(net.Operators(), (Ops{"StemConv", "Conv", "GlobalMaxPool", "Reshape"}));
  EXPECT_EQ(OfPools(), (Ops{"fusion stem_pool: Conv + Relu + MaxPool"}));
  const ops::Attributes& attributes = net.graph.nodes[0].attributes;
  EXPECT_EQ(std::get<int64_t>(attributes.at("max_pool")), 1);
  EXPECT_EQ(std::get<int64_t>(attributes.at("pool_ceil_mode")), 1);
  EXPECT_EQ(std::get<Ints>(attributes.at("pool_pads")), (Ints{1, 1, 1, 1}));
  EXPECT_EQ(std::get<Ints>(attributes.at("pads")), (Ints{3, 3, 3, 3}));
  EXPECT_EQ(std::get<std::string>(attributes.at("activation")), "relu");
  const auto& dims = *net.graph.value(net.graph.nodes[0].outputs[0]).dims;
  EXPECT_EQ(dims[1].size, 9);  // a window that is cut off, which the net does not state
  EXPECT_EQ(dims[3].size, kChannels);
}

TEST_F(StemPoolTest, OneWithoutActivationOrPaddingToo) {
  Finish(Pool(Stem(nullptr), {{"auto_pad", std::string("VALID")}, {"pads", Ints{1, 1, 1, 1}}}));
  ASSERT_EQ(net.Operators(), (Ops{"StemConv", "Conv", "GlobalMaxPool", "Reshape"}));
  EXPECT_FALSE(net.graph.nodes[0].attributes.contains("pool_pads"));
}

TEST_F(StemPoolTest, OtherWindowsStay) {
  for (const ops::Attributes& attributes : {ops::Attributes{{"kernel_shape", Ints{2, 2}}},
                                            {{"kernel_shape", Ints{3, 2}}},
                                            {{"strides", Ints{1, 2}}},
                                            {{"strides", Ints{}}},
                                            {{"dilations", Ints{2, 2}}},
                                            {{"auto_pad", std::string("SAME_UPPER")}}}) {
    net = Builder(DataType::kFloat16);
    Finish(Pool(Stem(), attributes));
    ExpectLeft("its windows are not 3 x 3, two apart");
  }
}

TEST_F(StemPoolTest, OtherReadersKeepTheConvolution) {
  const int y = Stem();
  net.Output(net.Add("GlobalAveragePool", 1, {y}, Image(kChannels, 1)));
  Finish(Pool(y));
  ExpectLeft("others read the convolution, too");
}

TEST_F(StemPoolTest, ActivationsThatAreNoBoundsStay) {
  Finish(Pool(Stem("Tanh")));
  ExpectLeft("of this activation the kernel has no maxima");
}

TEST_F(StemPoolTest, OtherConvolutionsAndPoolsAreNotMeant) {
  Finish(Pool(Stem("Relu", {{"strides", Ints{1, 1}}})));
  EXPECT_TRUE(OfPools().empty());
  net = Builder(DataType::kFloat16);
  Finish(net.Add("AveragePool", 11, {Stem()}, Image(kChannels, 8),
                 {{"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}}));
  EXPECT_TRUE(OfPools().empty());
}

TEST_F(StemPoolTest, IndicesStay) {
  const int max = Pool(Stem());
  net.graph.nodes.back().outputs.push_back(net.Value("indices", Image(kChannels, 8)));
  net.Output(net.graph.nodes.back().outputs[1]);
  Finish(max);
  EXPECT_TRUE(OfPools().empty());
}

}  // namespace
}  // namespace cudaep::graph
