// Softmax between codes.
#include <gtest/gtest.h>

#include "graph/pass/match.h"
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

const Dim kKeys = {kUnknownDim, "keys"}, kOne = {1};
const std::vector<Dim> kScoreDims = {kBatch, {kHeads}, kRows, kKeys};

// Scores of an attention with a mask, as quantisers write them.
struct MaskedNet : QdqNet {
  explicit MaskedNet(std::vector<Dim> mask_dims = {kBatch, kOne, kOne, kKeys}, DataType element = DataType::kFloat)
      : QdqNet(element), scores(Input("scores", kScoreDims)), mask(Input("mask", std::move(mask_dims))) {}

  int Sum(int a, int b) { return Add("Add", 13, {a, b}, kScoreDims); }
  int Soft(int value, ops::Attributes attributes = {{"axis", int64_t{-1}}}, int version = 13) {
    return Add("Softmax", version, {value}, kScoreDims, std::move(attributes));
  }
  int Codes(int value, DataType type = DataType::kInt8) { return Through(value, 0.5, 7, type); }
  void Result(int soft) { Output(Through(soft, 1.0 / 255, -128, DataType::kInt8)); }
  // Without the mask, QLinearSoftmax.
  std::string MissedMask() {
    const std::string missed = Missed(Run());
    EXPECT_TRUE(std::ranges::count(Operators(), "QuantizedSoftmax") == 0);
    EXPECT_EQ(std::ranges::count(Operators(), "QLinearSoftmax"), 1);
    return missed;
  }
  const ir::Node* Fused() {
    Run();
    const auto found = std::ranges::find_if(
        graph.nodes, [](const ir::Node& n) { return n.Is("QuantizedSoftmax", ops::kFusedDomain); });
    EXPECT_EQ(std::ranges::count(Operators(), "Add"), 0);
    return found == graph.nodes.end() ? nullptr : &*found;
  }

  int scores, mask;
};

TEST(QdqMaskedSoftmaxTest, OfNumbers) {
  MaskedNet net;
  const int codes = net.Quantize(net.scores, 0.25, 5, DataType::kInt8);
  const int sum = net.Sum(net.Dequantize(codes, 0.25, 5), net.mask);
  net.Result(net.Soft(net.Through(sum, 2, -3, DataType::kInt8)));
  net.Run();
  ASSERT_EQ(net.Operators(), (Ops{"QuantizeLinear", "QuantizedSoftmax", "DequantizeLinear"}));
  const ir::Node& made = net.node(1);
  EXPECT_EQ(made.domain, ops::kFusedDomain);
  EXPECT_EQ(made.inputs, (std::vector<int>{codes, net.mask}));
  EXPECT_EQ(made.attributes.size(), 6);
  EXPECT_EQ(net.FloatOf(1, "x_scale"), 0.25f);
  EXPECT_EQ(net.FloatOf(1, "sum_scale"), 2.0f);
  EXPECT_EQ(net.FloatOf(1, "y_scale"), static_cast<float>(1.0 / 255));
  EXPECT_EQ(IntAttribute(made, "x_zero", 0), 5);
  EXPECT_EQ(IntAttribute(made, "sum_zero", 0), 125);  // as of uint8
  EXPECT_EQ(IntAttribute(made, "y_zero", 0), -128);
}

TEST(QdqMaskedSoftmaxTest, OfCodesInEitherOrder) {
  for (const bool is_first : {false, true}) {
    MaskedNet net;
    const int codes = net.Quantize(net.mask, 256, 255), mask = net.Dequantize(codes, 256, 255);
    const int scores = net.Through(net.scores, 0.25, 115);
    net.Result(net.Soft(net.Through(is_first ? net.Sum(mask, scores) : net.Sum(scores, mask), 256, 255)));
    const ir::Node* const made = net.Fused();
    ASSERT_NE(made, nullptr);
    EXPECT_EQ(made->inputs[1], codes);
    // Of int8 by then.
    EXPECT_EQ(net.graph.value(codes).type, DataType::kInt8);
    EXPECT_EQ(std::get<float>(made->attributes.at("mask_scale")), 256);
    EXPECT_EQ(std::get<int64_t>(made->attributes.at("mask_zero")), 127);
    EXPECT_EQ(std::get<int64_t>(made->attributes.at("x_zero")), 115 - 128);
    EXPECT_EQ(std::get<int64_t>(made->attributes.at("sum_zero")), 255);
  }
}

TEST(QdqMaskedSoftmaxTest, ByKeyAndByQuery) {
  using Dims = std::vector<Dim>;
  for (const Dims& dims :
       {Dims{kOne, kOne, kOne, kKeys}, Dims{kBatch, kOne, kRows, kKeys}, Dims{kOne, {kHeads}, kRows, kKeys},
        Dims{kBatch, {kHeads}, kRows, kKeys}, Dims{kRows, kKeys}, Dims{kKeys}}) {
    for (const bool of_codes : {false, true}) {
      MaskedNet net(dims);
      const int mask = of_codes ? net.Codes(net.mask) : net.mask;
      net.Result(net.Soft(net.Codes(net.Sum(net.Codes(net.scores), mask))));
      EXPECT_NE(net.Fused(), nullptr) << dims.size();
    }
  }
}

TEST(QdqMaskedSoftmaxTest, OfSeveralTypesOfCodesAndOldSoftmax) {
  MaskedNet net;
  net.Output(net.Quantize(net.Soft(net.Codes(net.Sum(net.Codes(net.scores), net.mask)), {{"axis", int64_t{3}}}, 11),
                          1.0 / 255, 0));  // leaves, so stays uint8
  EXPECT_NE(net.Fused(), nullptr);
}

// One mask for the Softmaxes of several layers.
TEST(QdqMaskedSoftmaxTest, MaskWithOtherReaders) {
  MaskedNet net;
  const int mask = net.Codes(net.mask);
  for (int i = 0; i < 2; ++i) net.Result(net.Soft(net.Codes(net.Sum(net.Codes(net.scores), mask))));
  net.Run();
  EXPECT_EQ(std::ranges::count(net.Operators(), "QuantizedSoftmax"), 2);
}

TEST(QdqMaskedSoftmaxTest, MaskLeftAlone) {
  MaskedNet keys({kBatch, kOne, kOne, kOne});
  keys.Result(keys.Soft(keys.Codes(keys.Sum(keys.Codes(keys.scores), keys.mask))));
  EXPECT_EQ(keys.MissedMask(), "the mask is not known to repeat over the scores");
  MaskedNet open({kBatch, kOne, {}, kKeys});
  open.Result(open.Soft(open.Codes(open.Sum(open.Codes(open.scores), open.mask))));
  EXPECT_EQ(open.MissedMask(), "the mask is not known to repeat over the scores");
  MaskedNet ranks({kOne, kBatch, kOne, kOne, kKeys});
  ranks.Result(ranks.Soft(ranks.Codes(ranks.Sum(ranks.Codes(ranks.scores), ranks.mask))));
  EXPECT_EQ(ranks.MissedMask(), "the mask is not known to repeat over the scores");

  MaskedNet axis;
  axis.Result(axis.Soft(axis.Codes(axis.Sum(axis.Codes(axis.scores), axis.mask)), {{"axis", int64_t{2}}}));
  EXPECT_EQ(axis.MissedMask(), "Softmax of masked scores is not along the last dimension");
  MaskedNet scale;
  const int sum = scale.Quantize(scale.Sum(scale.Codes(scale.scores), scale.mask), 2, 3);
  scale.Result(scale.Soft(scale.Dequantize(sum, 2, 4)));
  EXPECT_EQ(scale.MissedMask(), "masked scores become numbers by another scale or zero point");

  for (const int read : {0, 1, 2}) {  // the sum, its codes, what they stand for
    MaskedNet net;
    const int added = net.Sum(net.Codes(net.scores), net.mask), codes = net.Quantize(added, 2, 3, DataType::kInt8),
              reals = net.Dequantize(codes, 2, 3);
    net.Result(net.Soft(reals));
    net.Output(std::vector{added, codes, reals}[static_cast<size_t>(read)]);
    EXPECT_EQ(net.MissedMask(), "somebody else reads the masked scores") << read;
  }
}

TEST(QdqMaskedSoftmaxTest, SumsWithoutCodes) {
  MaskedNet numbers;  // of scores that have no codes
  numbers.Result(numbers.Soft(numbers.Codes(numbers.Sum(numbers.scores, numbers.mask))));
  EXPECT_EQ(numbers.MissedMask(), "");
  MaskedNet product;
  const int masked = product.Add("Mul", 13, {product.Codes(product.scores), product.mask}, kScoreDims);
  product.Result(product.Soft(product.Codes(masked)));
  EXPECT_EQ(product.MissedMask(), "");
  MaskedNet half({kBatch, kOne, kOne, kKeys}, DataType::kFloat16);
  half.Result(half.Soft(half.Codes(half.Sum(half.Codes(half.scores), half.mask))));
  EXPECT_EQ(Missed(half.Run()), "Softmax is not between codes of fp32");
}

TEST(QdqMaskedSoftmaxTest, ScoresOfFiveDimensions) {
  MaskedNet net({kKeys});
  for (ir::Value& value : net.graph.values) {
    if (value.dims && value.dims->size() == 4) value.dims->insert(value.dims->begin(), kOne);
  }
  const int scores = net.Codes(net.scores);
  const int sum = net.Add("Add", 13, {scores, net.mask}, *net.graph.value(scores).dims);
  net.Result(net.Soft(net.Codes(sum)));
  EXPECT_EQ(net.MissedMask(), "masked scores have more than 4 dimensions");
}

}  // namespace
}  // namespace cudaep::graph
