// Which nodes of a region run with their channels last, and where layouts change.
#include "image_net.h"

namespace cudaep::graph {
namespace {

using ir::Dim;
using ir::Node;
using ChannelsLastTest = ImageTest;

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
