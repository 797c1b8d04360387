// Which nodes of a region run with their channels last, and where layouts change.
#include <gtest/gtest.h>

#include "graph/ir/constants.h"
#include "graph/pass/pass.h"
#include "graph/pass/whole_packs.h"
#include "graph_builder.h"
#include "lib/dnn.h"
#include "ops/image_layout.h"

namespace cudaep::graph {
namespace {

using ir::Dim;
using ir::Node;

constexpr int64_t kChannels = 16;
std::vector<Dim> Image(int64_t channels, int64_t size = 8) { return {{kUnknownDim, "n"}, {channels}, {size}, {size}}; }

class ChannelsLastTest : public ::testing::Test {
 protected:
  // A convolution of 3x3 over an image of 8x8 and `from` channels, to `to`.
  int Conv(int x, int64_t from = kChannels, int64_t to = kChannels, ops::Attributes attributes = {}) {
    attributes["pads"] = std::vector<int64_t>{1, 1, 1, 1};
    const int64_t groups = attributes.contains("group") ? std::get<int64_t>(attributes["group"]) : 1;
    return net.Add("Conv", 11, {x, net.Constant("w", {to, from / groups, 3, 3})}, Image(to), attributes);
  }
  void Run() {
    Settings settings = WithoutChains();
    settings.fusion_skip.Add(Fusion::kConvEpilogue);
    notes = RunPasses(net.graph, settings);
    for (const Node& node : net.graph.nodes) {
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
    for (const Node& node : net.graph.nodes) {
      for (const int input : node.inputs) EXPECT_TRUE(input < 0 || there[static_cast<size_t>(input)]) << node.op_type;
      for (const int output : node.outputs) {
        if (output >= 0) there[static_cast<size_t>(output)] = true;
      }
    }
    for (const int output : net.graph.outputs) EXPECT_TRUE(there[static_cast<size_t>(output)]);
  }
  std::vector<int64_t> SizesOf(int value) const {
    std::vector<int64_t> sizes;
    for (const Dim& dim : *net.graph.value(value).dims) sizes.push_back(dim.size);
    return sizes;
  }
  const Node& At(size_t node) const { return net.graph.nodes[node]; }
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

const std::vector<int64_t> kToLast{0, 2, 3, 1}, kToFirst{0, 3, 1, 2};

// Scales of blocks have a dimension for each of the image's.
TEST_F(ChannelsLastTest, CodesOfOneScaleTurn) {
  for (const int64_t block : {int64_t{0}, kChannels}) {
    Builder one{DataType::kFloat16};
    const int scale = one.Constant("scale", block == 0 ? Shape{} : Shape{1, 1, 1, 1});
    const std::vector<Dim> dims = Image(kChannels, 1);
    const int y = one.Add("Conv", 11, {one.Input("x", dims), one.Constant("w", {kChannels, kChannels, 1, 1})}, dims);
    const int codes = one.Add("QuantizeLinear", 21, {y, scale}, dims, {{"block_size", block}});
    one.graph.value(codes).type = DataType::kUint8;
    one.Output(codes);
    Settings settings = WithoutChains();
    for (const Fusion skipped : {Fusion::kQdq, Fusion::kShortProducts}) settings.fusion_skip.Add(skipped);
    RunPasses(one.graph, settings);
    const Ops wanted = block == 0 ? Ops{"Reshape", "Conv", "QuantizeLinear", "Reshape"}
                                  : Ops{"Reshape", "Conv", "Reshape", "QuantizeLinear"};
    EXPECT_EQ(one.Operators(), wanted) << block;
  }
}

TEST_F(ChannelsLastTest, ConvolutionsOfOnePixelAreProducts) {
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
TEST_F(ChannelsLastTest, SqueezedChannelsAreFilledUp) {
  struct Case {
    int64_t squeezed, wanted;
    DataType type = DataType::kFloat16;
    int64_t size = 1;
    bool leaves = false;
  };
  const Case cases[] = {{.squeezed = 6, .wanted = 8},
                        {.squeezed = 20, .wanted = 24},
                        {.squeezed = 4, .wanted = 8, .type = DataType::kBFloat16},
                        {.squeezed = 8, .wanted = 8},
                        {.squeezed = 3, .wanted = 3},
                        {.squeezed = 6, .wanted = 6, .type = DataType::kFloat},
                        {.squeezed = 6, .wanted = 6, .size = 2},
                        {.squeezed = 6, .wanted = 6, .leaves = true}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.squeezed);
    Builder one{c.type};
    const auto constant = [&](const char* name, const Shape& dims) {
      std::vector<double> numbers(static_cast<size_t>(dims.elems()));
      for (size_t at = 0; at < numbers.size(); ++at) numbers[at] = static_cast<double>(at % 97 + 1);
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
        ASSERT_TRUE(part == 0.0 || part == columns[static_cast<size_t>(at)]);
      }
    }
  }
}

TEST_F(ChannelsLastTest, LayoutsChangeAtTheBordersOnly) {
  const int relu = net.Add("Relu", 14, {Conv(x)}, Image(kChannels));
  net.Output(net.Add("Add", 14, {Conv(relu), relu}, Image(kChannels)));
  Run();
  ASSERT_EQ(net.Operators(), (Ops{"Transpose", "Conv", "Relu", "Conv", "Add", "Transpose"}));
  EXPECT_EQ(AttributeOf<std::vector<int64_t>>(0, "perm"), kToLast);
  EXPECT_EQ(AttributeOf<std::vector<int64_t>>(5, "perm"), kToFirst);
  EXPECT_EQ(At(1).domain, ops::kFusedDomain);
  EXPECT_EQ(AttributeOf<int64_t>(1, "channels_last"), 1);
  EXPECT_EQ(SizesOf(At(1).outputs[0]), (std::vector<int64_t>{kUnknownDim, 8, 8, kChannels}));
  EXPECT_EQ(At(5).outputs, net.graph.outputs);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(Describe(notes[0]), "fusion channels_last: Conv + 3 more nodes");
}

TEST_F(ChannelsLastTest, OneConvolutionTurnsItselfAsWell) {
  net.Output(net.Add("Relu", 14, {Conv(x)}, Image(kChannels)));
  Run();
  EXPECT_EQ(net.Operators(), (Ops{"Conv", "Relu"}));
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].missed, "");
}

TEST_F(ChannelsLastTest, ConvolutionsThatGainNothingStay) {
  for (auto [type, from, to] : {std::tuple{DataType::kFloat, kChannels, kChannels},
                                {DataType::kFloat16, int64_t{12}, kChannels},
                                {DataType::kFloat16, kChannels, int64_t{9}}}) {
    net = Builder(type);
    const int image = net.Input("x", Image(from));
    const int middle = Conv(image, from, to);
    net.Output(Conv(middle, to, from));
    Run();
    EXPECT_EQ(net.Operators(), (Ops{"Conv", "Conv"}));
    EXPECT_TRUE(notes.empty());
  }
}

TEST_F(ChannelsLastTest, WeightsThatAreNoConstantsStay) {
  const int w = net.Input("w", {{kChannels}, {kChannels}, {3}, {3}});
  const int middle = net.Add("Conv", 11, {x, w}, Image(kChannels, 6));
  net.Output(net.Add("Conv", 11, {middle, w}, Image(kChannels, 4)));
  Run();
  EXPECT_EQ(net.Operators(), (Ops{"Conv", "Conv"}));
}

TEST_F(ChannelsLastTest, OtherRoutesAndOptionsLeaveThemAlone) {
  net.Output(Conv(Conv(x)));
  Settings library, skipped;
  library.enable_cudnn = false;
  skipped.fusion_skip.Add(Fusion::kChannelsLast);
  for (const Settings& settings : {library, skipped}) {
    RunPasses(net.graph, settings);
    EXPECT_EQ(net.Operators(), (Ops{"Conv", "Conv"}));
  }
}

TEST_F(ChannelsLastTest, DepthwiseOnesGoAlong) {
  const int wide = Conv(Conv(x), kChannels, kChannels, {{"group", kChannels}});
  net.Output(Conv(wide));
  Run();
  EXPECT_EQ(net.Operators(), (Ops{"Transpose", "Conv", "Conv", "Conv", "Transpose"}));
}

TEST_F(ChannelsLastTest, AnotherReaderHasTheModelsLayout) {
  const int middle = Conv(x);
  net.Output(net.Add("LayerNormalization", 17, {middle, net.Constant("scale", {8})}, Image(kChannels)));
  net.Output(Conv(Conv(middle)));
  Run();
  EXPECT_EQ(net.Operators(),
            (Ops{"Transpose", "Conv", "Transpose", "LayerNormalization", "Conv", "Conv", "Transpose"}));
}

TEST_F(ChannelsLastTest, OnePixelIsReshaped) {
  const int pooled = net.Add("GlobalAveragePool", 1, {Conv(Conv(x))}, Image(kChannels, 1));
  net.Output(net.Add("Flatten", 13, {pooled}, {{kUnknownDim, "n"}, {kChannels}}));
  Run();
  ASSERT_EQ(net.Operators(), (Ops{"Transpose", "Conv", "Conv", "GlobalAveragePool", "Reshape", "Flatten"}));
  EXPECT_EQ(At(3).domain, ops::kNhwcDomain);
  EXPECT_EQ(Ints(At(4).inputs[1]), (std::vector<int64_t>{0, kChannels, 1, 1}));
}

TEST_F(ChannelsLastTest, ConstantsAreBroadcastAlongTheirChannels) {
  int y = net.Add("Mul", 14, {Conv(x), net.Constant("scale", {kChannels, 1, 1})}, Image(kChannels));
  y = net.Add("Add", 14, {net.Constant("rows", {8, 8}), y}, Image(kChannels));
  y = net.Add("Sub", 14, {y, net.Constant("one", {})}, Image(kChannels));
  net.Output(Conv(y));
  Run();
  ASSERT_EQ(net.Operators(), (Ops{"Transpose", "Conv", "Mul", "Add", "Sub", "Conv", "Transpose"}));
  EXPECT_EQ(SizesOf(At(2).inputs[1]), (std::vector<int64_t>{1, 1, 1, kChannels}));
  EXPECT_EQ(SizesOf(At(3).inputs[0]), (std::vector<int64_t>{1, 8, 8, 1}));
  EXPECT_TRUE(SizesOf(At(4).inputs[1]).empty());
}

TEST_F(ChannelsLastTest, OperandsOfOtherRankStay) {
  const int plane = net.Input("plane", {{8}, {8}});
  net.Output(Conv(net.Add("Add", 14, {Conv(x), plane}, Image(kChannels))));
  Run();
  EXPECT_EQ(net.Operators(), (Ops{"Conv", "Add", "Conv"}));
}

TEST_F(ChannelsLastTest, ConstantsOfChannelsAndPixelsStay) {
  const int full = net.Constant("full", {kChannels, 8, 8});
  net.Output(Conv(net.Add("Add", 14, {Conv(x), full}, Image(kChannels))));
  Run();
  EXPECT_EQ(net.Operators(), (Ops{"Conv", "Add", "Conv"}));
}

TEST_F(ChannelsLastTest, AxesMove) {
  const int a = Conv(Conv(x)), b = Conv(x);
  const int both = net.Add("Concat", 13, {a, b}, Image(2 * kChannels), {{"axis", int64_t{-3}}});
  const int means = net.Add("ReduceMean", 13, {both}, Image(2 * kChannels, 1), {{"axes", std::vector<int64_t>{2, -1}}});
  const int part = net.Add("Slice", 13,
                           {net.Add("Mul", 14, {both, means}, Image(2 * kChannels)), net.Ints("start", {0}),
                            net.Ints("end", {16}), net.Ints("axis", {1})},
                           Image(kChannels));
  const int pad = net.Add("Pad", 13, {part, net.Ints("pads", {0, 0, 1, 2, 0, 0, 3, 4})},
                          {{kUnknownDim, "n"}, {kChannels}, {12}, {14}});
  net.Output(net.Add("ReduceSum", 13, {pad, net.Ints("axes", {2, 3})}, {{kUnknownDim, "n"}, {kChannels}},
                     {{"keepdims", int64_t{0}}}));
  Run();
  ASSERT_EQ(net.Operators(),
            (Ops{"Transpose", "Conv", "Conv", "Conv", "Concat", "ReduceMean", "Mul", "Slice", "Pad", "ReduceSum"}));
  EXPECT_EQ(AttributeOf<int64_t>(4, "axis"), 3);
  EXPECT_EQ(AttributeOf<std::vector<int64_t>>(5, "axes"), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(Ints(At(7).inputs[3]), (std::vector<int64_t>{3}));
  EXPECT_EQ(Ints(At(8).inputs[1]), (std::vector<int64_t>{0, 1, 2, 0, 0, 3, 4, 0}));
  EXPECT_EQ(Ints(At(9).inputs[1]), (std::vector<int64_t>{1, 2}));
}

TEST_F(ChannelsLastTest, ReductionsThatLeaveSomeDimensionsStay) {
  const int y = Conv(Conv(Conv(x)));
  net.Output(
      net.Add("ReduceSum", 13, {y, net.Ints("axes", {1})}, {{kUnknownDim, "n"}, {8}, {8}}, {{"keepdims", int64_t{0}}}));
  Run();
  EXPECT_EQ(net.Operators(), (Ops{"Transpose", "Conv", "Conv", "Conv", "Transpose", "ReduceSum"}));
}

TEST_F(ChannelsLastTest, ScalesAndDimensionsAreReadInTheModelsOrder) {
  const int y = Conv(Conv(x));
  const int dims = net.Add("Shape", 15, {y}, {{2}}, {{"start", int64_t{2}}});
  net.graph.nodes.back().on_host = true;
  const std::vector<Dim> twice{{kUnknownDim, "n"}, {kChannels}, {16}, {16}};
  const int scales = net.Vector<float>("scales", DataType::kFloat, {1, 1, 2, 2});
  const int wide = net.Add("Resize", 13, {y, -1, scales}, twice, {{"mode", std::string("nearest")}});
  net.Output(net.Add("GlobalMaxPool", 1, {wide}, Image(kChannels, 1)));
  net.Output(dims);
  Run();
  ASSERT_EQ(net.Operators(),
            (Ops{"Transpose", "Conv", "Conv", "Shape", "Gather", "Gather", "Resize", "GlobalMaxPool", "Reshape"}));
  EXPECT_TRUE(At(3).on_host && At(4).on_host && At(5).on_host);
  EXPECT_TRUE(At(3).attributes.empty());
  EXPECT_EQ(Ints(At(4).inputs[1]), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(At(4).outputs[0], dims);
  EXPECT_EQ(Ints(At(5).inputs[1]), kToLast);
  EXPECT_EQ(At(6).inputs[2], At(5).outputs[0]);
}

TEST_F(ChannelsLastTest, TransposesOfTheModelGo) {
  const std::vector<Dim> last{{kUnknownDim, "n"}, {8}, {8}, {kChannels}};
  const int turned = net.Add("Transpose", 13, {Conv(x)}, last, {{"perm", kToLast}});
  const int norm = net.Add("LayerNormalization", 17, {turned, net.Constant("scale", {kChannels})}, last);
  const int back = net.Add("Transpose", 13, {norm}, Image(kChannels), {{"perm", kToFirst}});
  net.Output(net.Add("Add", 14, {back, x}, Image(kChannels)));
  Run();
  ASSERT_EQ(net.Operators(), (Ops{"Transpose", "Conv", "LayerNormalization", "Add", "Transpose"}));
  EXPECT_EQ(At(2).inputs[0], At(1).outputs[0]);
  EXPECT_EQ(At(3).inputs, (std::vector<int>{At(2).outputs[0], At(0).outputs[0]}));
}

// As in the first stage of a ConvNeXt, where no convolution gains by itself; without the Transposes they stay.
TEST_F(ChannelsLastTest, TransposesAroundDepthwiseConvolutionsGo) {
  const std::vector<Dim> last{{kUnknownDim, "n"}, {8}, {8}, {kChannels}};
  for (const bool transposed : {true, false}) {
    net = Builder(DataType::kFloat16);
    notes.clear();
    int y = net.Input("x", transposed ? last : Image(kChannels));
    if (transposed) y = net.Add("Transpose", 13, {y}, Image(kChannels), {{"perm", kToFirst}});
    y = net.Add("Relu", 14, {Conv(y, kChannels, kChannels, {{"group", kChannels}})}, Image(kChannels));
    if (transposed) y = net.Add("Transpose", 13, {y}, last, {{"perm", kToLast}});
    net.Output(net.Add("Softmax", 13, {y}, transposed ? last : Image(kChannels)));
    Run();
    EXPECT_EQ(net.Operators(), (Ops{"Conv", "Relu", "Softmax"}));
    EXPECT_EQ(At(0).attributes.contains("channels_last"), transposed);
    EXPECT_EQ(notes.size(), transposed ? 1u : 0u);
  }
}

TEST_F(ChannelsLastTest, ATransposeThatLeavesIsACopy) {
  const std::vector<Dim> last{{kUnknownDim, "n"}, {8}, {8}, {kChannels}};
  net.Output(net.Add("Transpose", 13, {Conv(Conv(x))}, last, {{"perm", kToLast}}));
  Run();
  EXPECT_EQ(net.Operators(), (Ops{"Transpose", "Conv", "Conv", "Identity"}));
}

TEST_F(ChannelsLastTest, IndicesOfMaximaStay) {
  const int y = Conv(Conv(Conv(x)));
  const int max = net.Add("MaxPool", 12, {y}, Image(kChannels, 4),
                          {{"kernel_shape", std::vector<int64_t>{2, 2}}, {"strides", std::vector<int64_t>{2, 2}}});
  const int indices = net.Value("indices", Image(kChannels, 4));
  net.graph.nodes.back().outputs.push_back(indices);
  net.Output(max);
  net.Output(indices);
  Run();
  EXPECT_EQ(net.Operators(), (Ops{"Transpose", "Conv", "Conv", "Conv", "Transpose", "MaxPool"}));
  EXPECT_EQ(At(5).domain, ops::kOnnxDomain);
}

TEST_F(ChannelsLastTest, WindowsOfAStemAlongARowBecomeChannels) {
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
TEST_F(ChannelsLastTest, PatchesBecomeTokens) {
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

TEST_F(ChannelsLastTest, ReshapesThatMixChannelsAndPixelsStay) {
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

TEST_F(ChannelsLastTest, AStemHasAnOperatorOfItsOwn) {
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

TEST_F(ChannelsLastTest, AStemWithASumStays) {
  const int image = net.Input("image", Image(3, 16)), sum = net.Input("sum", Image(kChannels));
  const int stem = net.Add("Conv", 1, {image, net.Constant("w", {kChannels, 3, 2, 2}), -1, sum}, Image(kChannels),
                           {{"strides", std::vector<int64_t>{2, 2}}});
  net.graph.nodes.back().domain = ops::kFusedDomain;
  net.Output(Conv(Conv(stem)));
  Run();
  EXPECT_EQ(net.Operators(), (Ops{"Conv", "Transpose", "Conv", "Conv", "Transpose"}));
}

// An operator that refuses its nodes where images lie channels last.
class FirstOnly : public ops::Operator {
 public:
  static Result<std::unique_ptr<FirstOnly>> Create(const ops::OpInfo& info) {
    if (info.domain() == ops::kNhwcDomain) return NotSupported("channels last");
    return std::make_unique<FirstOnly>();
  }
  Status InferShapes(ops::TensorViews, std::vector<Shape>&) const override { return Status::Ok(); }
  Status Enqueue(const ops::Plan&, const ops::OpContext&) const override { return Status::Ok(); }
};
const ops::RegisterRows kRows(ops::InBothLayouts(
    {{.op = "LRN", .since = 1000, .until = 1000, .types = {{"T", kFloatTypes}}, .make = ops::Make<FirstOnly>}}));

TEST_F(ChannelsLastTest, WhatNoKernelTakesStays) {
  net.Output(Conv(Conv(net.Add("LRN", 1000, {Conv(Conv(x))}, Image(kChannels)))));
  Run();
  EXPECT_EQ(net.Operators(),
            (Ops{"Transpose", "Conv", "Conv", "Transpose", "LRN", "Transpose", "Conv", "Conv", "Transpose"}));
}

TEST_F(ChannelsLastTest, BatchNormalizationAndPoolsHaveThatForm) {
  const int channel = net.Constant("parameters", {kChannels});
  const int norm = net.Add("BatchNormalization", 15, {Conv(x), channel, channel, channel, channel}, Image(kChannels));
  const int max = net.Add("MaxPool", 12, {norm}, Image(kChannels, 4),
                          {{"kernel_shape", std::vector<int64_t>{2, 2}}, {"strides", std::vector<int64_t>{2, 2}}});
  net.Output(net.Add("GlobalAveragePool", 1, {max}, Image(kChannels, 1)));
  Run();
  ASSERT_EQ(net.Operators(),
            (Ops{"Transpose", "Conv", "BatchNormalization", "MaxPool", "GlobalAveragePool", "Reshape"}));
  for (const size_t n : {2, 3, 4}) EXPECT_EQ(At(n).domain, ops::kNhwcDomain);
}

}  // namespace
}  // namespace cudaep::graph
