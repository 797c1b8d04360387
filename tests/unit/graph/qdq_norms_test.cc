// Layer normalisation between codes.
#include <gtest/gtest.h>

#include "graph/pass/match.h"
#include "graph/pass/quantization.h"
#include "ops/registry.h"
#include "qdq_net.h"

namespace cudaep::graph {
namespace {

constexpr const char* kFused = "QuantizedLayerNormalization";
enum Place : size_t {
  kX,
  kXScale,
  kXZero,
  kResidual,
  kResidualScale,
  kResidualZero,
  kSumScale,
  kSumZero,
  kGamma,
  kBeta,
  kYScale,
  kYZero
};

struct NormNet : QdqNet {
  explicit NormNet(DataType element = DataType::kFloat)
      : QdqNet(element),
        gamma(Input("gamma", {{kHidden}})),
        beta(Constant("beta", {kHidden})),
        residual(Hidden("residual")) {}

  int Norm(int value, ops::Attributes attributes = {{"axis", int64_t{-1}}, {"epsilon", 1e-12f}}) {
    return Add("LayerNormalization", 17, {value, gamma, beta}, *graph.value(value).dims, std::move(attributes));
  }
  int Sum(int a, int b) { return Add("Add", 13, {a, b}, kHiddenDims); }
  int Codes(int value, DataType type = DataType::kInt8) { return Through(value, 0.5, 7, type); }
  // Of codes that become numbers again; then they are int8 within the region, whatever they were.
  void Result(int norm, DataType type = DataType::kInt8) { Output(Through(norm, 0.25, -9, type)); }
  const ir::Node* Fused() {
    Run();
    const auto found =
        std::ranges::find_if(graph.nodes, [](const ir::Node& n) { return n.Is(kFused, ops::kFusedDomain); });
    return found == graph.nodes.end() ? nullptr : &*found;
  }
  std::string MissedNorm() {
    const std::string missed = Missed(Run());
    EXPECT_EQ(std::ranges::count(Operators(), kFused), 0);
    EXPECT_EQ(
        std::ranges::count_if(graph.nodes, [](const ir::Node& n) { return n.op_type.ends_with("LayerNormalization"); }),
        1);
    return missed;
  }
  std::optional<double> ScalarAt(const ir::Node& made, Place place) const {
    return ir::ScalarOf(graph, made.inputs[place]);
  }
  int32_t ZeroAt(const ir::Node& made, Place place) const {
    const auto codes = CodesOf(graph, made.inputs[place]);
    return codes && codes->size() == 1 ? codes->front() : 9999;
  }

  int gamma, beta, residual;
};

TEST(QdqNormsTest, OfOneTensor) {
  NormNet net;
  net.Output(net.Through(net.Norm(net.Through(net.x, 0.5, 3)), 0.25, 100));
  net.Run();
  ASSERT_EQ(net.Operators(), (Ops{"QuantizeLinear", kFused, "DequantizeLinear"}));
  const ir::Node& made = net.node(1);
  EXPECT_EQ(made.domain, ops::kFusedDomain);
  ASSERT_EQ(made.inputs.size(), 12);
  EXPECT_EQ(made.inputs[kX], net.node(0).outputs[0]);
  EXPECT_EQ(net.ScalarAt(made, kXScale), 0.5);
  EXPECT_EQ(net.ZeroAt(made, kXZero), 3 - 128);
  for (const Place none : {kResidual, kResidualScale, kResidualZero, kSumScale, kSumZero})
    EXPECT_EQ(made.inputs[none], -1);
  EXPECT_EQ(made.inputs[kGamma], net.gamma);
  EXPECT_EQ(made.inputs[kBeta], net.beta);
  EXPECT_EQ(net.ScalarAt(made, kYScale), 0.25);
  EXPECT_EQ(net.ZeroAt(made, kYZero), 100 - 128);
  EXPECT_EQ(net.FloatOf(1, "epsilon"), 1e-12f);
}

TEST(QdqNormsTest, OfCodedSum) {
  NormNet net;
  const int x = net.Quantize(net.x, 0.5, 3, DataType::kInt8),
            more = net.Quantize(net.residual, 0.75, -4, DataType::kInt8);
  const int sum = net.Sum(net.Dequantize(x, 0.5, 3), net.Dequantize(more, 0.75, -4));
  net.Output(net.Through(net.Norm(net.Through(sum, 2, 5, DataType::kInt8)), 0.25, -9, DataType::kInt8));
  net.Run();
  ASSERT_EQ(net.Operators(), (Ops{"QuantizeLinear", "QuantizeLinear", kFused, "DequantizeLinear"}));
  const ir::Node& made = net.node(2);
  EXPECT_EQ(made.inputs[kX], x);
  EXPECT_EQ(net.ScalarAt(made, kXScale), 0.5);
  EXPECT_EQ(net.ZeroAt(made, kXZero), 3);
  EXPECT_EQ(made.inputs[kResidual], more);
  EXPECT_EQ(net.ScalarAt(made, kResidualScale), 0.75);
  EXPECT_EQ(net.ZeroAt(made, kResidualZero), -4);
  EXPECT_EQ(net.ScalarAt(made, kSumScale), 2.0);
  EXPECT_EQ(net.ZeroAt(made, kSumZero), 5);
  EXPECT_EQ(net.ScalarAt(made, kYScale), 0.25);
  EXPECT_EQ(net.ZeroAt(made, kYZero), -9);
}

TEST(QdqNormsTest, OfSumOfNumbers) {
  NormNet net;
  net.Result(net.Norm(net.Sum(net.Codes(net.x), net.Codes(net.residual))));
  const ir::Node* const made = net.Fused();
  ASSERT_NE(made, nullptr);
  EXPECT_GE(made->inputs[kResidual], 0);
  EXPECT_EQ(made->inputs[kSumScale], -1);
  EXPECT_EQ(std::ranges::count(net.Operators(), "Add"), 0);
}

// Codes that leave stay uint8, and those of graph inputs.
TEST(QdqNormsTest, OfSeveralTypesOfCodes) {
  NormNet net;
  net.Output(net.Quantize(net.Norm(net.Codes(net.Sum(net.Codes(net.x), net.Codes(net.residual, DataType::kUint8)))),
                          0.25, 100));
  EXPECT_NE(net.Fused(), nullptr);
}

TEST(QdqNormsTest, OfUnsignedCodesThatComeIn) {
  NormNet net;
  const int codes = net.Hidden("codes"), more = net.Hidden("more");
  net.graph.value(codes).type = net.graph.value(more).type = DataType::kUint8;
  const int sum = net.Sum(net.Dequantize(codes, 0.5, 200), net.Dequantize(more, 0.75, 3));
  net.Output(net.Quantize(net.Norm(net.Through(sum, 2, 130)), 0.25, 100));
  const ir::Node* const made = net.Fused();
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(made->inputs[kX], codes);
  EXPECT_EQ(net.ZeroAt(*made, kXZero), 200);
  EXPECT_EQ(made->inputs[kResidual], more);
  EXPECT_EQ(net.ZeroAt(*made, kResidualZero), 3);
  EXPECT_EQ(net.ZeroAt(*made, kYZero), 100);
}

TEST(QdqNormsTest, WithoutZeroPointsAndShift) {
  NormNet net;
  const int codes = net.Quantize(net.x, 0.5, 0, DataType::kInt8);
  const int reals = net.Add("DequantizeLinear", 21, {codes, net.Number(0.5)}, kHiddenDims);
  net.Result(net.Add("LayerNormalization", 17, {reals, net.gamma}, kHiddenDims, {{"axis", int64_t{2}}}));
  const ir::Node* const made = net.Fused();
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(net.ZeroAt(*made, kXZero), 0);
  EXPECT_EQ(made->inputs[kBeta], -1);
  EXPECT_EQ(std::get<float>(made->attributes.at("epsilon")), 1e-5f);
}

// A post-norm layer: the codes of the norm are a product's operand and the next sum's, and a sum's of the same tensor.
TEST(QdqNormsTest, SeveralReadersOfTheCodes) {
  NormNet net;
  const int x = net.Codes(net.x);
  const int first = net.Through(net.Norm(net.Codes(net.Sum(x, net.Codes(net.residual)))), 0.25, -9, DataType::kInt8);
  net.Output(net.Op("Relu", {first}));
  net.Result(net.Norm(net.Codes(net.Sum(first, x))));
  net.Run();
  EXPECT_EQ(std::ranges::count(net.Operators(), kFused), 2);
  EXPECT_EQ(std::ranges::count(net.Operators(), "Add"), 0);
}

// A pre-norm layer: the sum is what the next one adds to.
TEST(QdqNormsTest, SumThatOthersReadStays) {
  for (const bool codes_leave : {false, true}) {
    NormNet net;
    const int codes = net.Quantize(net.Sum(net.Codes(net.x), net.Codes(net.residual)), 2, 5, DataType::kInt8);
    const int sum = net.Dequantize(codes, 2, 5);
    net.Output(codes_leave ? codes : net.Op("Relu", {sum}));
    net.Result(net.Norm(sum));
    const ir::Node* const made = net.Fused();
    ASSERT_NE(made, nullptr);
    EXPECT_EQ(made->inputs[kX], codes);
    EXPECT_EQ(made->inputs[kResidual], -1);
    EXPECT_EQ(std::ranges::count(net.Operators(), "Add"), 1);
  }
}

TEST(QdqNormsTest, SumsThatStay) {
  NormNet scale;  // codes of another zero point than what they become
  const int codes = scale.Quantize(scale.Sum(scale.Codes(scale.x), scale.Codes(scale.residual)), 2, 5, DataType::kInt8);
  scale.Result(scale.Norm(scale.Dequantize(codes, 2, 4)));
  const ir::Node* made = scale.Fused();
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(made->inputs[kX], codes);
  EXPECT_EQ(made->inputs[kResidual], -1);

  NormNet repeated;  // positions are the same for the whole batch
  const int positions = repeated.Input("positions", {{1}, kRows, {kHidden}});
  repeated.Result(repeated.Norm(repeated.Codes(repeated.Sum(repeated.Codes(repeated.x), repeated.Codes(positions)))));
  made = repeated.Fused();
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(made->inputs[kResidual], -1);

  NormNet numbers;  // of which one has no codes
  numbers.Result(numbers.Norm(numbers.Codes(numbers.Sum(numbers.Codes(numbers.x), numbers.residual))));
  made = numbers.Fused();
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(made->inputs[kResidual], -1);
}

TEST(QdqNormsTest, LeftAlone) {
  NormNet read;
  const int norm = read.Norm(read.Codes(read.x));
  read.Output(norm);
  read.Result(norm);
  EXPECT_EQ(read.MissedNorm(), "somebody else reads the normalised numbers");
  NormNet summed;
  const int sum = summed.Sum(summed.Codes(summed.x), summed.Codes(summed.residual));
  summed.Output(sum);
  summed.Result(summed.Norm(sum));
  EXPECT_EQ(summed.MissedNorm(), "somebody else reads the sum that is normalised");
  NormNet axis;
  axis.Result(axis.Norm(axis.Codes(axis.x), {{"axis", int64_t{1}}}));
  EXPECT_EQ(axis.MissedNorm(), "LayerNormalization is not along the last dimension");
  NormNet rank;
  rank.Result(rank.Norm(rank.Codes(rank.x)));
  for (ir::Value& value : rank.graph.values) {
    if (!value.is_constant()) value.dims.reset();
  }
  EXPECT_EQ(rank.MissedNorm(), "the model does not state the rank of what is normalised");
  NormNet wide;
  wide.gamma = wide.Input("each", kHiddenDims);
  wide.Result(wide.Norm(wide.Codes(wide.x)));
  EXPECT_EQ(wide.MissedNorm(), "scale and bias are not vectors of fp32");
  NormNet statistics;
  const int with_mean = statistics.Norm(statistics.Codes(statistics.x));
  const int mean = statistics.Value("mean", {kBatch, kRows, {1}});
  statistics.graph.nodes.back().outputs.push_back(mean);
  statistics.Output(mean);
  statistics.Result(with_mean);
  EXPECT_EQ(statistics.MissedNorm(), "LayerNormalization also gives its statistics");
}

TEST(QdqNormsTest, NotBetweenCodes) {
  NormNet numbers;
  numbers.Result(numbers.Norm(numbers.x));
  EXPECT_EQ(numbers.MissedNorm(), "");
  NormNet open;
  open.Output(open.Norm(open.Codes(open.x)));
  EXPECT_EQ(open.MissedNorm(), "");
  NormNet half(DataType::kFloat16);
  half.Result(half.Norm(half.Codes(half.x)));
  EXPECT_EQ(half.MissedNorm(), "");
  NormNet scales;
  std::vector<double> numbers_of(kHidden, 0.25);
  const int scale = scales.graph.AddConstant("scales", ir::MakeNumbers(DataType::kFloat, Shape{kHidden}, numbers_of));
  const int codes = scales.Add("QuantizeLinear", 21,
                               {scales.Norm(scales.Codes(scales.x)), scale,
                                scales.Vector("zeros", DataType::kInt8, std::vector<int8_t>(kHidden))},
                               kHiddenDims, {{"axis", int64_t{2}}});
  scales.graph.value(codes).type = DataType::kInt8;
  scales.Output(codes);
  EXPECT_EQ(scales.MissedNorm(), "codes behind LayerNormalization have several scales");
}

}  // namespace
}  // namespace cudaep::graph
