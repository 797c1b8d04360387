// Convolutions of codes.
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "graph/pass/quantization.h"
#include "qdq_net.h"

namespace cudaep::graph {
namespace {

constexpr int64_t kChannels = 16;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct ConvNet : QdqNet {
  static std::vector<Dim> Image(int64_t channels = kChannels) { return {kBatch, {channels}, {6}, {8}}; }
  int Codes(const char* name = "image", int64_t channels = kChannels) { return Through(Input(name, Image(channels))); }
  int Bytes(const char* name) {
    const int made = Input(name, Image());
    graph.value(made).type = DataType::kUint8;
    return made;
  }
  // [out, in, rows, columns] of ones.
  int Filters(Shape dims, std::vector<double> scales = {0.25}, int64_t axis = 0, DataType code = DataType::kInt8) {
    ops::HostTensor ones{.type = code, .dims = dims, .data = {}};
    ones.data.assign(static_cast<size_t>(dims.elems()), std::byte{1});
    std::vector<Dim> stated;
    for (const int64_t dim : dims.dims()) stated.push_back({dim});
    const auto count = static_cast<int64_t>(scales.size());
    const Shape shape = count == 1 ? Shape() : Shape{count};
    const int scale = graph.AddConstant("scales", ir::MakeNumbers(type, shape, scales));
    return Add("DequantizeLinear", 21, {graph.AddConstant("w", std::move(ones)), scale}, stated, {{"axis", axis}});
  }
  int Conv(std::vector<int> inputs, std::vector<Dim> dims = Image(), ops::Attributes attributes = {}) {
    return Add("Conv", 11, std::move(inputs), std::move(dims), std::move(attributes));
  }
  int OneByOne(int codes) { return Conv({codes, Filters({kChannels, kChannels, 1, 1})}); }
  int On(const char* op, std::vector<int> inputs) { return Add(op, 14, std::move(inputs), Image()); }
  std::vector<FusionNote> Run() {
    Settings settings = WithoutChains();
    settings.fusion_skip.Add(Fusion::kChannelsLast);
    return QdqNet::Run(settings);
  }
  size_t Find(const char* op) const {
    size_t n = 0;
    while (n < graph.nodes.size() && node(n).op_type != op) ++n;
    return n;
  }
  template <class T>
  T Of(size_t index, const char* name) const {
    return std::get<T>(node(index).attributes.at(std::string(name)));
  }
};

TEST(QdqConvolutionsTest, ToTheNextCodes) {
  ConvNet net;
  const int bias =
      net.graph.AddConstant("bias", ir::MakeNumbers(DataType::kFloat, {kChannels}, std::vector<double>(16, 7)));
  std::vector<double> scales(kChannels, 0.5);
  scales[3] = 2;
  const int y = net.Conv({net.Codes(), net.Filters({kChannels, kChannels, 3, 3}, scales), bias}, ConvNet::Image(),
                         {{"pads", std::vector<int64_t>{1, 1, 1, 1}}});
  net.Output(net.Quantize(net.On("Relu", {y}), 0.125, 9));
  const auto notes = net.Run();
  ASSERT_EQ(net.Operators(), (Ops{"QuantizeLinear", "QuantizedConv"}));
  EXPECT_EQ(Missed(notes), "");
  EXPECT_EQ(net.Of<std::vector<int64_t>>(1, "pads"), (std::vector<int64_t>{1, 1, 1, 1}));
  EXPECT_EQ(net.Of<int64_t>(1, "x_zero"), 3 - 128);
  EXPECT_EQ(net.Of<float>(1, "y_scale"), 0.125f);
  EXPECT_EQ(net.Of<int64_t>(1, "y_zero"), 9);
  EXPECT_EQ(net.Of<std::vector<float>>(1, "bounds"), (std::vector<float>{0, kInfinity}));
  EXPECT_EQ((*ir::NumbersOf(net.graph, net.InputOf(1, 2)))[0], 0.25);
  EXPECT_EQ((*ir::NumbersOf(net.graph, net.InputOf(1, 2)))[3], 1);
  EXPECT_EQ((*ir::NumbersOf(net.graph, net.InputOf(1, 3)))[5], 7);
  EXPECT_EQ((*ir::IntsOf(net.graph, net.InputOf(1, 4)))[0], 125 * 9 * kChannels);
}

TEST(QdqConvolutionsTest, NumbersWhereNoCodesFollow) {
  ConvNet net;
  net.Output(net.Quantize(net.On("Sigmoid", {net.OneByOne(net.Codes())}), 0.5, 0));
  net.Run();
  ASSERT_EQ(net.Operators(), (Ops{"QuantizeLinear", "QuantizedConv", "Sigmoid", "QuantizeLinear"}));
  EXPECT_FALSE(net.node(1).attributes.contains("y_scale"));
  EXPECT_EQ(net.graph.value(net.node(1).outputs[0]).type, DataType::kFloat);
}

TEST(QdqConvolutionsTest, OfTwoThatAreAddedOneAdds) {
  ConvNet net;
  const int a = net.Through(net.OneByOne(net.Codes("a")), 0.25, 5),
            b = net.Through(net.OneByOne(net.Codes("b")), 0.5, 6);
  net.Output(net.Quantize(net.On("Relu", {net.On("Add", {a, b})}), 1, 7, DataType::kInt8));
  net.Run();
  ASSERT_EQ(net.Operators(), (Ops{"QuantizeLinear", "QuantizeLinear", "QuantizedConv", "QuantizedConv"}));
  EXPECT_EQ(net.node(2).inputs[5], -1);
  ASSERT_EQ(net.InputOf(3, 5), net.node(2).outputs[0]);
  EXPECT_EQ(net.Of<float>(3, "y_scale"), 0.25f);
  EXPECT_EQ(net.Of<int64_t>(3, "y_zero"), 5 - 128);
  EXPECT_EQ(net.Of<float>(3, "residual_scale"), 0.5f);
  EXPECT_EQ(net.Of<int64_t>(3, "residual_zero"), 6 - 128);
  EXPECT_EQ(net.Of<float>(3, "sum_scale"), 1.0f);
  EXPECT_EQ(net.Of<int64_t>(3, "sum_zero"), 7);
  EXPECT_EQ(net.Of<std::vector<float>>(3, "sum_bounds"), (std::vector<float>{0, kInfinity}));
}

TEST(QdqConvolutionsTest, SumsThatStayApart) {
  using Build = std::function<int(ConvNet&, int convolved)>;
  const auto codes = [](ConvNet& net, const char* name) { return net.Through(net.Input(name, ConvNet::Image())); };
  const std::pair<const char*, Build> cases[] = {
      {"read twice",
       [&](ConvNet& net, int y) {
         const int through = net.Through(y);
         return net.On("Mul", {net.On("Add", {through, codes(net, "other")}), through});
       }},
      {"of other scales",
       [&](ConvNet& net, int y) {
         return net.On("Add", {net.Dequantize(net.Quantize(y, 0.5, 3), 0.25, 3), codes(net, "other")});
       }},
      {"no codes",
       [&](ConvNet& net, int y) {
         return net.On("Add", {net.Through(y), net.Input("f", ConvNet::Image())});
       }},
      {"broadcast",
       [&](ConvNet& net, int y) {
         const std::vector<Dim> one = {{1}, {kChannels}, {1}, {1}};
         return net.On("Add", {net.Through(y), net.Through(net.Input("one", one))});
       }},
      {"to itself",
       [&](ConvNet& net, int y) {
         const int through = net.Through(y);
         return net.On("Add", {through, through});
       }},
      {"another type", [&](ConvNet& net, int y) {
         return net.On("Add", {net.Through(y), net.Dequantize(net.Bytes("bytes"), 1, 0)});
       }}};
  for (const auto& [what, build] : cases) {
    ConvNet net;
    net.Output(net.Dequantize(net.Quantize(build(net, net.OneByOne(net.Codes())), 1, 0, DataType::kInt8), 1, 0));
    net.Run();
    const size_t conv = net.Find("QuantizedConv");
    ASSERT_LT(conv, net.graph.nodes.size()) << what;
    EXPECT_EQ(net.node(conv).inputs[5], -1) << what;
    EXPECT_LT(net.Find("Add"), net.graph.nodes.size()) << what;
  }
}

TEST(QdqConvolutionsTest, FirstOnesReadWindowsAsChannels) {
  ConvNet net;
  const int y = net.Conv({net.Codes("image", 3), net.Filters({kChannels, 3, 5, 7})}, {kBatch, {kChannels}, {2}, {3}},
                         {{"kernel_shape", std::vector<int64_t>{5, 7}},
                          {"strides", std::vector<int64_t>{1, 3}},
                          {"pads", std::vector<int64_t>{1, 2, 0, 3}}});
  net.Output(net.Quantize(y, 0.5, 0));
  EXPECT_EQ(Missed(net.Run()), "");
  ASSERT_EQ(net.Operators(), (Ops{"QuantizeLinear", "WindowsToChannels", "QuantizedConv", "Transpose"}));
  EXPECT_EQ(net.Of<int64_t>(1, "channels"), 32);
  EXPECT_EQ(net.Of<int64_t>(1, "fill"), 3 - 128);
  EXPECT_EQ(net.Of<std::vector<int64_t>>(1, "kernel_shape"), std::vector<int64_t>{7});
  EXPECT_EQ(net.Of<std::vector<int64_t>>(1, "pads"), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(net.Of<std::vector<int64_t>>(1, "strides"), std::vector<int64_t>{3});
  EXPECT_EQ(net.Of<std::vector<int64_t>>(2, "pads"), (std::vector<int64_t>{1, 0, 0, 0}));
  EXPECT_EQ(net.Of<std::vector<int64_t>>(2, "strides"), (std::vector<int64_t>{1, 1}));
  const auto codes = *CodesOf(net.graph, net.InputOf(2, 1));
  EXPECT_EQ(codes.size(), static_cast<size_t>(kChannels * 32 * 5));
  EXPECT_EQ(std::count(codes.begin(), codes.end(), 1), kChannels * 3 * 5 * 7);
}

TEST(QdqConvolutionsTest, FirstOnesTwoColumnsApartHaveAKernelOfTheirOwn) {
  const auto first = [](ConvNet& net) {
    const std::vector<Dim> dims{kBatch, {kChannels}, {3}, {4}};
    const int bias =
        net.graph.AddConstant("bias", ir::MakeNumbers(net.type, {kChannels}, std::vector<double>(kChannels, 7)));
    const int y = net.Conv({net.Codes("image", 3), net.Filters({kChannels, 3, 7, 7}), bias}, dims,
                           {{"kernel_shape", std::vector<int64_t>{7, 7}},
                            {"strides", std::vector<int64_t>{2, 2}},
                            {"pads", std::vector<int64_t>{3, 3, 3, 3}}});
    return net.Add("Relu", 14, {y}, dims);
  };
  ConvNet net;
  net.Output(net.Quantize(first(net), 0.5, 9, DataType::kInt8));
  EXPECT_EQ(Missed(net.Run()), "");
  ASSERT_EQ(net.Operators(), (Ops{"QuantizeLinear", "QuantizedStem", "Transpose"}));
  EXPECT_EQ(net.Of<std::vector<int64_t>>(1, "pads"), (std::vector<int64_t>{3, 3, 3, 3}));
  EXPECT_EQ(net.Of<int64_t>(1, "x_zero"), 3 - 128);
  EXPECT_EQ(net.Of<float>(1, "y_scale"), 0.5f);
  EXPECT_EQ(net.Of<int64_t>(1, "y_zero"), 9);
  EXPECT_EQ(net.Of<std::vector<float>>(1, "bounds"), (std::vector<float>{0, kInfinity}));
  EXPECT_EQ(net.graph.value(net.InputOf(1, 1)).type, DataType::kFloat16);
  EXPECT_EQ(*ir::NumbersOf(net.graph, net.InputOf(1, 1)), std::vector<double>(kChannels * 3 * 7 * 7, 1));
  EXPECT_EQ(*ir::NumbersOf(net.graph, net.InputOf(1, 2)), std::vector<double>(kChannels, 7));
  EXPECT_EQ(*ir::NumbersOf(net.graph, net.InputOf(1, 3)), std::vector<double>(kChannels, 0.125));

  ConvNet pooled;
  const int codes = pooled.Dequantize(pooled.Quantize(first(pooled), 0.5, 9), 0.5, 9);
  const int y = pooled.Add("MaxPool", 12, {codes}, {kBatch, {kChannels}, {2}, {2}},
                           {{"kernel_shape", std::vector<int64_t>{3, 3}},
                            {"strides", std::vector<int64_t>{2, 2}},
                            {"pads", std::vector<int64_t>{1, 1, 1, 1}}});
  const int requantized = pooled.Dequantize(pooled.Quantize(y, 0.5, 9), 0.5, 9);
  const int next =
      pooled.Conv({requantized, pooled.Filters({kChannels, kChannels, 1, 1})}, *pooled.graph.value(y).dims);
  pooled.Output(pooled.Quantize(next, 0.5, 9));
  pooled.QdqNet::Run(WithoutChains());
  EXPECT_EQ(pooled.Operators(), (Ops{"QuantizeLinear", "QuantizedStem", "QuantizedConv", "Transpose"}));
  ASSERT_LT(pooled.Find("QuantizedStem"), pooled.graph.nodes.size());
  EXPECT_EQ(pooled.Find("MaxPool"), pooled.graph.nodes.size());
  EXPECT_EQ(pooled.Of<int64_t>(pooled.Find("QuantizedStem"), "max_pool"), 1);

  ConvNet numbers;  // where no codes follow
  numbers.Output(numbers.Quantize(numbers.On("Sigmoid", {first(numbers)}), 0.5, 0));
  numbers.Run();
  EXPECT_EQ(numbers.Find("QuantizedStem"), numbers.graph.nodes.size());
  EXPECT_LT(numbers.Find("QuantizedConv"), numbers.graph.nodes.size());
}

TEST(QdqConvolutionsTest, ScalesThatTogetherAreTooLargeForOneFactorStayApart) {
  const auto through = [](double x_scale, double w_scale, double y_scale) {
    ConvNet net;
    const int codes = net.Through(net.Input("image", ConvNet::Image()), x_scale, 3);
    net.Output(net.Quantize(net.Conv({codes, net.Filters({kChannels, kChannels, 1, 1}, {w_scale})}), y_scale, 0));
    net.Run();
    return net.Operators();
  };
  EXPECT_EQ(through(1e10, 1e10, 1e-8), (Ops{"QuantizeLinear", "QuantizedConv"}));
  EXPECT_EQ(through(1e12, 1e12, 1e-15), (Ops{"QuantizeLinear", "QuantizedConv", "QuantizeLinear"}));
  EXPECT_EQ(through(1e16, 1e16, 1), (Ops{"QuantizeLinear", "DequantizeLinear", "Conv", "QuantizeLinear"}));
}

// The node says so in a Run.
TEST(QdqConvolutionsTest, AsManyScalesAsChannelsOrOne) {
  for (const size_t count : {size_t{8}, size_t{17}}) {
    ConvNet net;
    net.Output(net.Conv({net.Codes(), net.Filters({kChannels, kChannels, 1, 1}, std::vector<double>(count, 0.5))}));
    net.Run();
    EXPECT_EQ(net.Operators(), (Ops{"QuantizeLinear", "DequantizeLinear", "DequantizeLinear", "Conv"})) << count;
  }
}

TEST(QdqConvolutionsTest, WhatStandsInTheWayIsNamed) {
  using Build = std::function<int(ConvNet&)>;
  const auto with = [](Shape dims, std::vector<double> scales = {0.25}, int64_t axis = 0) {
    return [=](ConvNet& net) { return net.Conv({net.Codes(), net.Filters(dims, scales, axis)}); };
  };
  const Shape plain{kChannels, kChannels, 1, 1};
  const std::pair<const char*, Build> cases[] = {
      {"weights are no constant of two spatial dimensions",
       [](ConvNet& net) {
         return net.Conv({net.Codes(), net.Through(net.Input("w", std::vector<Dim>(4)))});
       }},
      {"scales of the weights are not those of output channels", with(plain, std::vector<double>(kChannels, 0.5), 1)},
      {"codes are of uint8 outside of the region",
       [=](ConvNet& net) {
         const int bytes = net.Bytes("bytes");
         return net.Conv({net.Dequantize(bytes, 0.5, 3), net.Filters(plain)});
       }},
      {"sums may not fit 32 bits", with({kChannels, 33040, 1, 1})},
      {"convolutions in groups have no kernel of integers",
       [](ConvNet& net) {
         return net.Conv({net.Codes(), net.Filters({kChannels, 1, 1, 1})}, ConvNet::Image(), {{"group", kChannels}});
       }},
      {"the bias is no constant",
       [=](ConvNet& net) {
         return net.Conv({net.Codes(), net.Filters(plain), net.Input("b", {{kChannels}})});
       }},
      {"no kernel takes the integers",
       [](ConvNet& net) {
         return net.Conv({net.Codes("image", 24), net.Filters({kChannels, 24, 1, 1})});
       }},
  };
  for (const auto& [why, build] : cases) {
    ConvNet net;
    net.Output(build(net));
    EXPECT_EQ(Missed(net.Run()), why);
    EXPECT_EQ(net.Operators().back(), "Conv") << why;
  }
}

}  // namespace
}  // namespace cudaep::graph
