// Means of images between codes.
#include <gtest/gtest.h>

#include "graph/pass/quantization.h"
#include "ops/registry.h"
#include "qdq_net.h"

namespace cudaep::graph {
namespace {

constexpr int64_t kChannels = 16;

struct PoolNet : QdqNet {
  explicit PoolNet(std::vector<Dim> image = {kBatch, {kChannels}, {7}, {7}}, DataType element = DataType::kFloat)
      : QdqNet(element), image(Input("image", std::move(image))) {}

  int Pool(int value, const char* op = "GlobalAveragePool") {
    std::vector<Dim> dims = graph.value(value).dims.value_or(std::vector<Dim>{});
    for (size_t d = 2; d < dims.size(); ++d) dims[d] = {1};
    return Add(op, 1, {value}, std::move(dims));
  }
  int Flatten(int value) { return Add("Flatten", 13, {value}, {kBatch, {kChannels}}); }
  int Codes(int value) { return Through(value, 0.25, 5); }
  Ops Done() {
    Run();
    return Operators();
  }
  // Of a net that stays as it is.
  std::string MissedPool() {
    const std::string missed = Missed(Run());
    EXPECT_EQ(std::ranges::count(Operators(), "GlobalAveragePool"), 1);
    EXPECT_EQ(std::ranges::count(Operators(), "QLinearGlobalAveragePool"), 0);
    return missed;
  }

  int image;
};

const Ops kDone = {"QuantizeLinear", "QLinearGlobalAveragePool", "DequantizeLinear"};

TEST(QdqPoolsTest, BetweenCodes) {
  PoolNet net;
  net.Output(net.Through(net.Pool(net.Through(net.image, 0.5, 3)), 0.25, 5));
  const auto notes = net.Run();
  ASSERT_EQ(net.Operators(), kDone);
  EXPECT_EQ(Missed(notes), "");
  EXPECT_EQ(net.node(1).domain, ops::kMicrosoftDomain);
  EXPECT_EQ(net.InputOf(1, 0), net.node(0).outputs[0]);
  EXPECT_EQ(ir::ScalarOf(net.graph, net.InputOf(1, 1)), 0.5);
  EXPECT_EQ(CodesOf(net.graph, net.InputOf(1, 2)), std::vector<int32_t>{3 - 128});
  EXPECT_EQ(ir::ScalarOf(net.graph, net.InputOf(1, 3)), 0.25);
  EXPECT_EQ(CodesOf(net.graph, net.InputOf(1, 4)), std::vector<int32_t>{5 - 128});
  EXPECT_EQ(net.InputOf(2, 0), net.node(1).outputs[0]);
  EXPECT_EQ(IntAttribute(net.node(1), "channels_last", -1), 0);
}

TEST(QdqPoolsTest, ImagesOfOtherRanksThatOthersReadToo) {
  for (const std::vector<Dim>& dims :
       {std::vector<Dim>{kBatch, {kChannels}, {7}}, {kBatch, {kUnknownDim}, {2}, {3}, {4}}}) {
    PoolNet net(dims);
    const int numbers = net.Through(net.image);
    net.Output(net.Codes(net.Pool(numbers)));
    net.Output(numbers);
    EXPECT_EQ(net.Done(), (Ops{"QuantizeLinear", "DequantizeLinear", "QLinearGlobalAveragePool", "DequantizeLinear"}))
        << dims.size();
  }
}

TEST(QdqPoolsTest, NodesThatMoveTheMeanMoveCodes) {
  PoolNet net;
  const int row = net.Flatten(net.Pool(net.Through(net.image)));
  const int more = net.Add("Unsqueeze", 13, {row, net.Ints("axes", {0})}, {{1}, kBatch, {kChannels}});
  net.Output(net.Codes(more));
  ASSERT_EQ(net.Done(),
            (Ops{"QuantizeLinear", "QLinearGlobalAveragePool", "Flatten", "Unsqueeze", "DequantizeLinear"}));
  for (const size_t n : {1, 2, 3}) {
    EXPECT_EQ(net.TypeOf(n + 1, 0), DataType::kInt8) << n;
    EXPECT_EQ(net.InputOf(n + 1, 0), net.node(n).outputs[0]) << n;
  }
  EXPECT_EQ(net.graph.value(net.node(1).outputs[0]).dims->size(), 4u);
  EXPECT_EQ(net.graph.value(net.node(2).outputs[0]).dims->size(), 2u);
  EXPECT_EQ(net.node(3).sources.size(), 5u);  // none of them twice

  PoolNet behind;  // as quantisers write a classifier's end
  behind.Output(behind.Codes(behind.Flatten(behind.Codes(behind.Pool(behind.Through(behind.image))))));
  EXPECT_EQ(behind.Done(), (Ops{"QuantizeLinear", "QLinearGlobalAveragePool", "Flatten", "DequantizeLinear"}));
}

// Channels are last where convolutions of codes leave them so, and one pixel is the same memory in both orders.
struct ConvolvedNet : PoolNet {
  ConvolvedNet() {
    ops::HostTensor ones{.type = DataType::kInt8, .dims = {kChannels, kChannels, 1, 1}, .data = {}};
    ones.data.assign(kChannels * kChannels, std::byte{1});
    const int w = Add("DequantizeLinear", 21, {graph.AddConstant("w", std::move(ones)), Number(0.25)},
                      {{kChannels}, {kChannels}, {1}, {1}});
    convolved = Through(image);
    for (int i = 0; i < 2; ++i) convolved = Codes(Add("Conv", 11, {convolved, w}, *graph.value(image).dims));
  }
  int convolved;
};

TEST(QdqPoolsTest, BehindConvolutions) {
  ConvolvedNet net;
  net.Output(net.Codes(net.Flatten(net.Pool(net.convolved))));
  ASSERT_EQ(net.Done(), (Ops{"Transpose", "QuantizeLinear", "QuantizedConv", "QuantizedConv",
                             "QLinearGlobalAveragePool", "Reshape", "Flatten", "DequantizeLinear"}));
  EXPECT_EQ(IntAttribute(net.node(4), "channels_last", 0), 1);
  EXPECT_EQ(net.graph.value(net.InputOf(4, 0)).dims->back().size, kChannels);
  EXPECT_EQ(net.graph.value(net.node(4).outputs[0]).dims->back().size, kChannels);
}

// A model's own, to which the last dimension is the channels whatever convolutions have there.
TEST(QdqPoolsTest, ChannelsThatAreLastAlready) {
  ConvolvedNet net;
  const int codes = net.graph.nodes.back().inputs[0], number = net.Number(0.5), zero = net.Zero(0, DataType::kUint8);
  net.graph
      .value(net.Add("QLinearGlobalAveragePool", 1, {codes, number, zero, number, zero}, {kBatch, {1}, {1}, {7}},
                     {{"channels_last", int64_t{1}}}))
      .type = DataType::kUint8;
  net.graph.nodes.back().domain = ops::kMicrosoftDomain;
  net.Output(net.graph.nodes.back().outputs[0]);
  ASSERT_EQ(net.Done(), (Ops{"Transpose", "QuantizeLinear", "QuantizedConv", "QuantizedConv", "Transpose",
                             "QLinearGlobalAveragePool"}));
  EXPECT_EQ(net.graph.value(net.InputOf(5, 0)).dims->back().size, 7);
}

TEST(QdqPoolsTest, ImagesThatTheModelDoesNotState) {
  for (const std::vector<Dim>& dims : {std::vector<Dim>{kBatch, {kChannels}, {7}, {kUnknownDim, "w"}}, {}}) {
    PoolNet net(dims);
    net.Output(net.Codes(net.Pool(net.Through(net.image))));
    if (dims.empty()) {
      for (ir::Value& value : net.graph.values) {
        if (!value.is_constant()) value.dims.reset();
      }
    }
    EXPECT_EQ(net.Done(), kDone) << dims.size();
  }
}

TEST(QdqPoolsTest, MeansThatOthersRead) {
  for (const int read : {0, 1}) {  // as they are, flattened
    PoolNet net;
    const int mean = net.Pool(net.Through(net.image)), row = net.Flatten(mean);
    net.Output(net.Codes(row));
    net.Output(read == 0 ? mean : row);
    EXPECT_EQ(net.MissedPool(), "somebody else reads the mean") << read;
  }
}

TEST(QdqPoolsTest, ScalesThatTheKernelDoesNotTake) {
  const auto vector = [](PoolNet& net, int value, const char* op) {
    const int scales = net.graph.AddConstant(
        "scales", ir::MakeNumbers(net.type, {kChannels}, std::vector<double>(size_t{kChannels}, 0.5)));
    const std::vector<Dim> dims = *net.graph.value(value).dims;
    return net.Add(op, 21, {value, scales}, dims, {{"axis", int64_t{1}}});
  };
  PoolNet before;
  before.Output(before.Codes(
      before.Pool(vector(before, before.Quantize(before.image, 0.5, 3, DataType::kInt8), "DequantizeLinear"))));
  EXPECT_EQ(before.MissedPool(), "codes around GlobalAveragePool have several scales");
  PoolNet behind;
  const int codes = vector(behind, behind.Pool(behind.Through(behind.image)), "QuantizeLinear");
  behind.graph.value(codes).type = DataType::kUint8;
  behind.Output(codes);
  EXPECT_EQ(behind.MissedPool(), "codes around GlobalAveragePool have several scales");
  for (const auto& [x, y] : {std::pair{1e-30, 0.25}, {0.5, 1e30}}) {
    PoolNet net;
    net.Output(net.Through(net.Pool(net.Through(net.image, x, 3)), y, 5));
    EXPECT_EQ(net.MissedPool(), "scales around GlobalAveragePool are too large or too small") << x;
  }
}

TEST(QdqPoolsTest, TypesThatTheKernelDoesNotTake) {
  PoolNet half({kBatch, {kChannels}, {7}, {7}}, DataType::kFloat16);
  half.Output(half.Codes(half.Pool(half.Through(half.image))));
  EXPECT_EQ(half.MissedPool(), "GlobalAveragePool is not between codes of fp32");
  PoolNet types;  // uint8 that leaves, of codes that became int8
  types.Output(types.Quantize(types.Pool(types.Through(types.image)), 0.25, 5));
  EXPECT_EQ(types.MissedPool(), "codes before and behind GlobalAveragePool are of two types");
}

TEST(QdqPoolsTest, OtherPatterns) {
  PoolNet numbers;  // that have no codes
  numbers.Output(numbers.Codes(numbers.Pool(numbers.image)));
  EXPECT_EQ(numbers.MissedPool(), "");
  PoolNet computed;  // between mean and codes
  const int mean = computed.Pool(computed.Through(computed.image));
  computed.Output(computed.Codes(computed.Add("Sigmoid", 13, {mean}, *computed.graph.value(mean).dims)));
  EXPECT_EQ(computed.MissedPool(), "");
  PoolNet open;  // no codes behind
  open.Output(open.Pool(open.Through(open.image)));
  EXPECT_EQ(open.MissedPool(), "");
  PoolNet largest;
  largest.Output(largest.Codes(largest.Pool(largest.Through(largest.image), "GlobalMaxPool")));
  EXPECT_EQ(std::ranges::count(largest.Done(), "GlobalMaxPool"), 1);
  PoolNet skipped;
  skipped.Output(skipped.Codes(skipped.Pool(skipped.Through(skipped.image))));
  Settings settings = WithoutChains();
  settings.fusion_skip.Add(Fusion::kQdq);
  skipped.Run(settings);
  EXPECT_EQ(std::ranges::count(skipped.Operators(), "GlobalAveragePool"), 1);
}

}  // namespace
}  // namespace cudaep::graph
