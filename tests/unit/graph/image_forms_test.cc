// Convolutions that run in another form: as products, with fuller channels, with windows as channels, as stems.
#include <algorithm>
#include <cmath>

#include "graph/pass/whole_packs.h"
#include "image_net.h"

namespace cudaep::graph {
namespace {

using ir::Dim;
using ir::Node;
using ImageFormsTest = ImageTest;

TEST_F(ImageFormsTest, ConvolutionsOfOnePixelAreProducts) {
  struct Case {
    const char* what;
    std::string wanted = "Conv";
    DataType type = DataType::kFloat16;
    int64_t size = 1, to = 2 * kChannels, kernel = 1, groups = 1, pad = 0;
    bool deterministic = false;
  };
  const Case cases[] = {{.what = "fp16", .wanted = "MatMul"},
                        {.what = "bf16", .wanted = "MatMul", .type = DataType::kBFloat16},
                        {.what = "unknown size", .size = kUnknownDim},
                        {.what = "two pixels", .size = 2},
                        {.what = "no whole packs of channels", .to = 12},
                        {.what = "more taps", .kernel = 3, .pad = 1},
                        {.what = "groups", .groups = 2},
                        {.what = "deterministic", .deterministic = true}};
  for (const Case& c : cases) {
    Builder one{c.type};
    const std::vector<Dim> in = Image(kChannels, c.size), out = Image(c.to, c.size);
    const int before = one.Add("Conv", 11, {one.Input("x", in), one.Constant("v", {kChannels, kChannels, 1, 1})}, in);
    const int w = one.Constant("w", {c.to, kChannels / c.groups, c.kernel, c.kernel}), bias = one.Constant("b", {c.to});
    const int y =
        one.Add("Conv", 11, {before, w, bias}, out, {{"group", c.groups}, {"pads", std::vector<int64_t>(4, c.pad)}});
    one.Output(one.Add("HardSigmoid", 6, {y}, out, {{"alpha", 0.3f}, {"beta", 0.4f}}));
    Settings settings = WithoutChains();
    settings.deterministic = c.deterministic;
    RunPasses(one.graph, settings);
    const auto last = std::ranges::find_if(one.graph.nodes.rbegin(), one.graph.nodes.rend(),
                                           [](const Node& node) { return node.inputs.size() > 2; });
    ASSERT_NE(last, one.graph.nodes.rend()) << c.what;
    ASSERT_EQ(last->op_type, c.wanted) << c.what;
    EXPECT_EQ(std::get<std::string>(last->attributes.at("activation")), "hard_sigmoid") << c.what;
    EXPECT_EQ(std::get<std::vector<float>>(last->attributes.at("activation_params")), (std::vector{0.3f, 0.4f}));
    EXPECT_EQ(last->inputs[2], bias) << c.what;
    if (c.wanted != "MatMul") continue;
    EXPECT_EQ(std::get<int64_t>(last->attributes.at("transB")), 1);
    const Dims weights = one.graph.value(last->inputs[1]).constant.dims();
    EXPECT_TRUE(SameDims(weights, Shape{c.to, kChannels})) << c.what;
  }
}

// Squeezed channels that are no whole packs come twice, with halves of what reads them.
TEST_F(ImageFormsTest, SqueezedChannelsAreFilledUp) {
  struct Case {
    int64_t squeezed, wanted;
    DataType type = DataType::kFloat16;
    int64_t size = 1;
    bool leaves = false;
    double unit = 1;  // of the weights
    int64_t least = 1;
  };
  const Case cases[] = {{.squeezed = 6, .wanted = 8},
                        {.squeezed = 20, .wanted = 24},
                        {.squeezed = 4, .wanted = 8, .type = DataType::kBFloat16},
                        {.squeezed = 8, .wanted = 8},
                        {.squeezed = 3, .wanted = 3},
                        {.squeezed = 6, .wanted = 6, .type = DataType::kFloat},
                        {.squeezed = 6, .wanted = 6, .size = 2},
                        {.squeezed = 6, .wanted = 6, .leaves = true},
                        {.squeezed = 6, .wanted = 8, .unit = 0x1p-24, .least = 2},
                        {.squeezed = 6, .wanted = 6, .unit = 0x1p-24}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.squeezed);
    Builder one{c.type};
    const auto constant = [&](const char* name, const Shape& dims) {
      std::vector<double> numbers(static_cast<size_t>(dims.elems()));
      for (size_t at = 0; at < numbers.size(); ++at) numbers[at] = c.unit * static_cast<double>(at % 97 + c.least);
      return one.graph.AddConstant(name, ir::MakeNumbers(c.type, dims, numbers));
    };
    const int x = one.Input("x", Image(kChannels, c.size));
    const int w1 = constant("w1", {c.squeezed, kChannels, 1, 1}), b1 = constant("b1", {c.squeezed});
    const int between = one.Add("Conv", 11, {x, w1, b1}, Image(c.squeezed, c.size));
    const int w2 = constant("w2", {kChannels, c.squeezed, 1, 1});
    one.Output(one.Add("Conv", 11, {between, w2}, Image(kChannels, c.size)));
    if (c.leaves) one.Output(between);
    std::vector<FusionNote> ignored;
    const Settings settings;
    FillPacks(one.graph, {settings, ignored});
    const Node &first = one.graph.nodes[0], &second = one.graph.nodes[1];
    ASSERT_EQ(first.outputs[0], second.inputs[0]);
    EXPECT_EQ((*one.graph.value(first.outputs[0]).dims)[1].size, c.wanted);
    const auto numbers = [&](int value) { return *ir::NumbersOf(one.graph, value); };
    const std::vector<double> rows = numbers(first.inputs[1]), before = numbers(w1);
    ASSERT_EQ(rows.size(), static_cast<size_t>(c.wanted * kChannels));
    ASSERT_EQ(numbers(first.inputs[2]).size(), static_cast<size_t>(c.wanted));
    for (size_t i = 0; i < rows.size(); ++i) ASSERT_EQ(rows[i], before[i % before.size()]) << i;
    const std::vector<double> columns = numbers(second.inputs[1]), whole = numbers(w2);
    ASSERT_EQ(columns.size(), static_cast<size_t>(c.wanted * kChannels));
    for (int64_t row = 0; row < kChannels; ++row) {
      for (int64_t i = 0; i < c.squeezed; ++i) {  // both parts together are the weight
        const int64_t at = row * c.wanted + i, again = at + c.squeezed;
        const double part = i < c.wanted - c.squeezed ? columns[static_cast<size_t>(again)] : 0.0;
        ASSERT_EQ(columns[static_cast<size_t>(at)] + part, whole[static_cast<size_t>(row * c.squeezed + i)]);
        ASSERT_TRUE(part == 0.0 || std::abs(part - columns[static_cast<size_t>(at)]) <= (c.unit == 1 ? 0.0 : c.unit));
        ASSERT_NE(columns[static_cast<size_t>(at)], 0.0);
      }
    }
  }
}

TEST_F(ImageFormsTest, WindowsOfAStemAlongARowBecomeChannels) {
  using Ints = std::vector<int64_t>;
  struct Case {
    int64_t size, channels, kernel, stride;
    Ints pads, weights;
    int64_t taps;
  };
  for (const Case& c : {Case{16, 5, 7, 2, {3, 2, 1, 0}, {kChannels, 40, 7, 1}, 7},
                        Case{kUnknownDim, 3, 3, 3, {1, 1, 1, 1}, {kChannels, 16, 3, 1}, 3},
                        Case{32, 3, 4, 4, {0, 1, 0, 1}, {kChannels, 16, 4, 1}, 4},
                        // Windows that overlap so much that each element would be there many times.
                        Case{8, 3, 3, 1, {1, 1, 1, 1}, {kChannels, 8, 3, 3}, 1},
                        Case{64, 3, 9, 2, {0, 0, 0, 0}, {kChannels, 8, 9, 9}, 1}}) {
    net = Builder(DataType::kFloat16);
    const int image = net.Input("image", Image(c.channels, c.size));
    const int w = net.Constant("w", {kChannels, c.channels, c.kernel, c.kernel});
    ops::Attributes attributes{{"strides", Ints{c.stride, c.stride}}, {"kernel_shape", Ints{c.kernel, c.kernel}}};
    if (!c.pads.empty()) attributes["pads"] = c.pads;
    const int stem = net.Add("Conv", 11, {image, w}, Image(kChannels, kUnknownDim), attributes);
    const int y =
        net.Add("Conv", 11, {stem, net.Constant("w", {kChannels, kChannels, 1, 1})}, Image(kChannels, kUnknownDim));
    net.Output(net.Add("GlobalMaxPool", 1, {y}, Image(kChannels, 1)));
    Run();
    ASSERT_EQ(net.Operators(), (Ops{"WindowsToChannels", "Conv", "Conv", "GlobalMaxPool", "Reshape"})) << c.kernel;
    EXPECT_EQ(AttributeOf<int64_t>(0, "channels"), c.weights[1]);
    EXPECT_EQ(AttributeOf<Ints>(0, "kernel_shape"), Ints{c.taps});
    EXPECT_EQ(SizesOf(At(1).inputs[1]), c.weights);
    const bool gathered = c.taps != 1;
    EXPECT_EQ(At(0).attributes.contains("strides"), gathered);
    EXPECT_EQ(AttributeOf<Ints>(1, "strides"), (Ints{c.stride, gathered ? 1 : c.stride}));
    if (c.pads.empty()) continue;
    if (gathered) {
      EXPECT_EQ(AttributeOf<Ints>(0, "pads"), (Ints{c.pads[1], c.pads[3]}));
    }
    EXPECT_EQ(AttributeOf<Ints>(1, "pads"), gathered ? (Ints{c.pads[0], 0, c.pads[2], 0}) : c.pads);
  }
}

// As a vision transformer begins: the patches' products are its tokens.
TEST_F(ImageFormsTest, PatchesBecomeTokens) {
  using Ints = std::vector<int64_t>;
  const std::vector<Dim> image{{kUnknownDim, "n"}, {3}, {28}, {44}}, pixels{{kUnknownDim, "n"}, {kChannels}, {2}, {3}};
  const int w = net.Constant("w", {kChannels, 3, 14, 14}), bias = net.Constant("bias", {kChannels});
  const ops::Attributes side_by_side{
      {"strides", Ints{14, 14}}, {"kernel_shape", Ints{14, 14}}, {"pads", Ints{0, 0, 0, 0}}, {"group", int64_t{1}}};
  const int y = net.Add("Conv", 11, {net.Input("image", image), w, bias}, pixels, side_by_side);
  const int row = net.Add("Reshape", 14, {y, net.Ints("shape", {0, 0, -1})}, {{kUnknownDim, "n"}, {kChannels}, {6}},
                          {{"allowzero", int64_t{0}}});
  const std::vector<Dim> tokens{{kUnknownDim, "n"}, {6}, {kChannels}};
  const int turned = net.Add("Transpose", 13, {row}, tokens, {{"perm", Ints{0, 2, 1}}});
  net.Output(net.Add("LayerNormalization", 17, {turned, net.Constant("scale", {kChannels})}, tokens));
  Run();
  ASSERT_EQ(net.Operators(), (Ops{"PatchesToChannels", "Conv", "Reshape", "LayerNormalization"}));
  EXPECT_EQ(AttributeOf<Ints>(0, "kernel_shape"), (Ints{14, 14}));
  EXPECT_EQ(AttributeOf<int64_t>(0, "channels"), 592);
  EXPECT_EQ(SizesOf(At(0).outputs[0]), (Ints{kUnknownDim, 2, 3, 592}));
  EXPECT_EQ(SizesOf(At(1).inputs[1]), (Ints{kChannels, 592, 1, 1}));
  EXPECT_EQ(At(1).inputs[2], bias);
  for (const char* name : {"strides", "kernel_shape"}) EXPECT_FALSE(At(1).attributes.contains(name)) << name;
  EXPECT_EQ(this->Ints(At(2).inputs[1]), (Ints{0, 6, kChannels}));
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(Describe(notes[0]), "fusion channels_last: Conv + 1 more nodes");
}

TEST_F(ImageFormsTest, ReshapesThatMixChannelsAndPixelsStay) {
  const std::vector<Dim> open{{kUnknownDim, "n"}, {kChannels}, {kUnknownDim, "pixels"}};
  for (const std::vector<Dim>& to :
       {std::vector<Dim>{{kUnknownDim, "n"}, {kChannels / 2}, {128}}, {{kUnknownDim, "m"}, {kChannels}, {64}}, open}) {
    net = Builder(DataType::kFloat16);
    const int y = net.Add("Reshape", 14, {Conv(Conv(net.Input("x", Image(kChannels)))), net.Input("shape", {{3}})}, to);
    net.graph.value(net.graph.nodes.back().inputs[1]).type = DataType::kInt64;
    net.Output(net.Add("Relu", 14, {y}, to));
    Run();
    EXPECT_EQ(net.Operators(), (Ops{"Transpose", "Conv", "Conv", "Transpose", "Reshape", "Relu"}));
  }
}

TEST_F(ImageFormsTest, AStemHasAnOperatorOfItsOwn) {
  using Ints = std::vector<int64_t>;
  const int image = net.Input("image", Image(3, kUnknownDim));
  ops::Attributes attributes{{"strides", Ints{2, 2}}, {"kernel_shape", Ints{7, 7}}, {"pads", Ints{3, 3, 3, 3}}};
  attributes["activation"] = std::string("relu");
  const int stem = net.Add("Conv", 1, {image, net.Constant("w", {kChannels, 3, 7, 7}), -1, -1},
                           Image(kChannels, kUnknownDim), attributes);
  net.graph.nodes.back().domain = ops::kFusedDomain;
  const int y =
      net.Add("Conv", 11, {stem, net.Constant("w", {kChannels, kChannels, 1, 1})}, Image(kChannels, kUnknownDim));
  net.Output(net.Add("GlobalMaxPool", 1, {y}, Image(kChannels, 1)));
  Run();
  ASSERT_EQ(net.Operators(), (Ops{"StemConv", "Conv", "GlobalMaxPool", "Reshape"}));
  EXPECT_EQ(At(0).inputs[0], image);
  EXPECT_EQ(AttributeOf<std::string>(0, "activation"), "relu");
  EXPECT_EQ(AttributeOf<Ints>(0, "pads"), (Ints{3, 3, 3, 3}));
  EXPECT_EQ(SizesOf(At(0).outputs[0]), (Ints{kUnknownDim, kUnknownDim, kUnknownDim, kChannels}));
}

TEST_F(ImageFormsTest, AStemWithASumStays) {
  const int image = net.Input("image", Image(3, 16)), sum = net.Input("sum", Image(kChannels));
  const int stem = net.Add("Conv", 1, {image, net.Constant("w", {kChannels, 3, 2, 2}), -1, sum}, Image(kChannels),
                           {{"strides", std::vector<int64_t>{2, 2}}});
  net.graph.nodes.back().domain = ops::kFusedDomain;
  net.Output(Conv(Conv(stem)));
  Run();
  EXPECT_EQ(net.Operators(), (Ops{"Conv", "Transpose", "Conv", "Conv", "Transpose"}));
}

}  // namespace
}  // namespace cudaep::graph
