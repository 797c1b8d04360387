// Softmax between codes.
#include <gtest/gtest.h>

#include "graph/pass/quantization.h"
#include "ops/registry.h"
#include "qdq_net.h"

namespace cudaep::graph {
namespace {

struct SoftmaxNet : QdqNet {
  int Soft(int value, int version = 13, ops::Attributes attributes = {{"axis", int64_t{-1}}}) {
    return Add("Softmax", version, {value}, kHiddenDims, std::move(attributes));
  }
  Ops Done() {
    Run();
    return Operators();
  }
};

TEST(QdqSoftmaxTest, BetweenCodes) {
  SoftmaxNet net;
  const int soft = net.Soft(net.Through(net.x, 0.5, 3));
  net.Output(net.Through(soft, 1.0 / 255, 0));
  ASSERT_EQ(net.Done(), (Ops{"QuantizeLinear", "QLinearSoftmax", "DequantizeLinear"}));
  EXPECT_EQ(net.node(1).domain, ops::kMicrosoftDomain);
  EXPECT_EQ(net.InputOf(1, 0), net.node(0).outputs[0]);
  EXPECT_EQ(ir::ScalarOf(net.graph, net.InputOf(1, 1)), 0.5);
  EXPECT_EQ(CodesOf(net.graph, net.InputOf(1, 2)), std::vector<int32_t>{3 - 128});
  EXPECT_EQ(ir::ScalarOf(net.graph, net.InputOf(1, 3)), static_cast<double>(1.0f / 255));
  EXPECT_EQ(CodesOf(net.graph, net.InputOf(1, 4)), std::vector<int32_t>{-128});
  EXPECT_EQ(std::get<int64_t>(net.node(1).attributes.at("axis")), -1);
  EXPECT_EQ(std::get<int64_t>(net.node(1).attributes.at("opset")), 13);
}

TEST(QdqSoftmaxTest, OfFlattenedRowsAndWithoutZeroPoints) {
  SoftmaxNet net;
  const int codes = net.Quantize(net.x, 0.5, 0, DataType::kInt8);
  const int reals = net.Add("DequantizeLinear", 21, {codes, net.Number(0.5)}, kHiddenDims);
  net.Output(net.Through(net.Soft(reals, 11, {}), 1.0 / 255, -128, DataType::kInt8));
  ASSERT_EQ(net.Done(), (Ops{"QuantizeLinear", "QLinearSoftmax", "DequantizeLinear"}));
  EXPECT_EQ(CodesOf(net.graph, net.InputOf(1, 2)), std::vector<int32_t>{0});
  EXPECT_EQ(std::get<int64_t>(net.node(1).attributes.at("axis")), 1);
  EXPECT_EQ(std::get<int64_t>(net.node(1).attributes.at("opset")), 11);
}

TEST(QdqSoftmaxTest, LeftAlone) {
  SoftmaxNet read;  // the shares leave as numbers
  const int shares = read.Soft(read.Through(read.x));
  read.Output(shares);
  read.Output(read.Through(shares, 1.0 / 255, 0));
  EXPECT_EQ(std::ranges::count(read.Done(), "Softmax"), 1);
  SoftmaxNet types;  // uint8 that leaves, of codes that became int8
  types.Output(types.Quantize(types.Soft(types.Through(types.x)), 1.0 / 255, 0));
  EXPECT_EQ(std::ranges::count(types.Done(), "Softmax"), 1);
  SoftmaxNet numbers;
  numbers.Output(numbers.Through(numbers.Soft(numbers.x), 1.0 / 255, 0));
  EXPECT_EQ(std::ranges::count(numbers.Done(), "Softmax"), 1);
}

// Softmax takes these as well, QLinearSoftmax does not.
TEST(QdqSoftmaxTest, LeftAloneWithoutDimensionOfTheAxis) {
  struct Case {
    int version;
    ops::Attributes attributes;
    std::optional<std::vector<Dim>> dims;
  };
  const ops::Attributes last = {{"axis", int64_t{-1}}};
  for (const Case& c : {Case{13, last, {}}, Case{13, last, std::vector<Dim>{}}, Case{11, {}, {{kRows}}}}) {
    SoftmaxNet net;
    net.Output(net.Through(net.Soft(net.Through(net.x), c.version, c.attributes), 1.0 / 255, 0));
    for (ir::Value& value : net.graph.values) {
      if (!value.is_constant()) value.dims = c.dims;
    }
    EXPECT_EQ(Missed(net.Run()), "Softmax is not known to be along a dimension");
    EXPECT_EQ(std::ranges::count(net.Operators(), "Softmax"), 1);
  }
}

}  // namespace
}  // namespace cudaep::graph
