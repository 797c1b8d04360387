// Chains as steps of the machine.
#include "ops/elementwise/chain_program.h"

#include <gtest/gtest.h>

#include <limits>

namespace cudaep::ops {
namespace {

using kernels::ChainCode;

ChainTerm Term(const char* function, std::array<int, kMaxChainOperands> operands,
               std::array<float, kChainNumbers> numbers = {}) {
  return {.function = FindChainFunction(function), .operands = operands, .numbers = numbers};
}

std::vector<ChainCode> CodesOf(const kernels::ChainProgram& program) {
  std::vector<ChainCode> codes;
  for (int i = 0; i < program.size; ++i) codes.push_back(program.steps[static_cast<size_t>(i)].code());
  return codes;
}

std::vector<ChainCode> Compiled(const Chain& chain, bool fast = false) {
  Result<kernels::ChainProgram> program = CompileChain(chain, fast);
  EXPECT_TRUE(program.ok()) << program.status().ToString();
  return program.ok() ? CodesOf(program.value()) : std::vector<ChainCode>();
}

using Codes = std::vector<ChainCode>;

TEST(ChainProgramTest, NumbersAreJoined) {
  const Chain product_and_sum = {.inputs = 1,
                                 .terms = {Term("Mul", {0, -1, -1}, {0.5f}), Term("Add", {-1, 1, -1}, {0.25f}),
                                           Term("Max", {2, -1, -1}, {-1}), Term("Min", {3, -1, -1}, {2})},
                                 .results = {4}};
  const auto program = CompileChain(product_and_sum, false);
  ASSERT_TRUE(program.ok());
  EXPECT_EQ(CodesOf(program.value()),
            (Codes{ChainCode::kLoad, ChainCode::kAffine, ChainCode::kClamp, ChainCode::kStore}));
  EXPECT_EQ(program.value().steps[1].a, 0.5f);
  EXPECT_EQ(program.value().steps[1].b, 0.25f);
  EXPECT_EQ(program.value().steps[2].a, -1);
  EXPECT_EQ(program.value().steps[2].b, 2);
  // Not where a bound would be lost, or what lies between is a result.
  Chain other = product_and_sum;
  other.terms[3].numbers[0] = -2;
  EXPECT_EQ(Compiled(other).size(), 5u);
  other = product_and_sum;
  other.results = {4, 1};
  EXPECT_EQ(Compiled(other), (Codes{ChainCode::kLoad, ChainCode::kAffine, ChainCode::kStore, ChainCode::kAffine,
                                    ChainCode::kClamp, ChainCode::kStore}));
}

TEST(ChainProgramTest, QuotientsAreProductsWhereTheReciprocalIsExact) {
  for (const auto& [number, code] : {std::pair{-0.25f, ChainCode::kAffine},
                                     {8.0f, ChainCode::kAffine},
                                     {41.0f, ChainCode::kDivide},
                                     {0.0f, ChainCode::kDivide},
                                     {0x1p127f, ChainCode::kDivide},  // whose reciprocal is no normal number
                                     {std::numeric_limits<float>::infinity(), ChainCode::kDivide},
                                     {std::numeric_limits<float>::quiet_NaN(), ChainCode::kDivide}}) {
    const Chain chain = {.inputs = 1, .terms = {Term("Div", {0, -1, -1}, {number})}, .results = {1}};
    for (const bool fast : {false, true}) {
      EXPECT_EQ(Compiled(chain, fast), (Codes{ChainCode::kLoad, code, ChainCode::kStore})) << number;
    }
  }
}

TEST(ChainProgramTest, ZeroPointsBetweenCodesAndNumbersAreLeftOut) {
  Chain chain = {.inputs = 1,
                 .terms = {Term("Quantize", {0, -1, -1}, {0.5f, -131}), Term("Affine", {1, -1, -1}, {1, 3}),
                           Term("Affine", {2, -1, -1}, {1, -3}), Term("Affine", {3, -1, -1}, {0.25f, -0.0f})},
                 .results = {4}};
  EXPECT_EQ(Compiled(chain), (Codes{ChainCode::kLoad, ChainCode::kQuantize, ChainCode::kAffine, ChainCode::kStore}));
  // Not where the codes are a result, another number is taken off, or what it is taken off of is not whole.
  chain.results = {4, 2};
  EXPECT_EQ(Compiled(chain), (Codes{ChainCode::kLoad, ChainCode::kQuantize, ChainCode::kAffine, ChainCode::kStore,
                                    ChainCode::kAffine, ChainCode::kAffine, ChainCode::kStore}));
  chain.results = {4};
  chain.terms[2].numbers[1] = -2;
  EXPECT_EQ(Compiled(chain), (Codes{ChainCode::kLoad, ChainCode::kQuantize, ChainCode::kAffine, ChainCode::kAffine,
                                    ChainCode::kAffine, ChainCode::kStore}));
  chain.terms[2].numbers[1] = -3;
  chain.terms[0] = Term("Abs", {0, -1, -1});
  EXPECT_EQ(Compiled(chain), (Codes{ChainCode::kLoad, ChainCode::kAbs, ChainCode::kAffine, ChainCode::kAffine,
                                    ChainCode::kAffine, ChainCode::kStore}));
}

TEST(ChainProgramTest, ValuesWaitInSlots) {
  // Exp(x) * x: an input that is read again is kept too.
  const Chain gate = {.inputs = 1, .terms = {Term("Exp", {0, -1, -1}), Term("Mul", {1, 0, -1})}, .results = {2}};
  EXPECT_EQ(Compiled(gate),
            (Codes{ChainCode::kLoad, ChainCode::kKeep, ChainCode::kExp, ChainCode::kMultiply, ChainCode::kStore}));
  // A row of values that are all needed in the end.
  Chain row = {.inputs = 1, .terms = {Term("Exp", {0, -1, -1})}, .results = {}};
  for (int i = 0; i < 5; ++i) row.terms.push_back(Term("Sqrt", {1 + i, -1, -1}));
  for (int i = 0; i < 5; ++i) row.terms.push_back(Term("Mul", {6 + i, 5 - i, -1}));
  row.results = {11};
  const Status refused = CompileChain(row, false).status();
  EXPECT_EQ(refused.code(), StatusCode::kNotSupported);
  EXPECT_NE(refused.message().find("more than 4 values at once"), std::string_view::npos);
}

TEST(ChainProgramTest, NoInputIsReadAfterAStore) {
  // At once where nothing more is read.
  const Chain row = {.inputs = 1, .terms = {Term("Abs", {0, -1, -1}), Term("Exp", {1, -1, -1})}, .results = {2, 1}};
  EXPECT_EQ(Compiled(row),
            (Codes{ChainCode::kLoad, ChainCode::kAbs, ChainCode::kStore, ChainCode::kExp, ChainCode::kStore}));
  const Chain two = {.inputs = 2, .terms = {Term("Abs", {0, -1, -1}), Term("Exp", {1, -1, -1})}, .results = {3, 2}};
  EXPECT_EQ(Compiled(two), (Codes{ChainCode::kLoad, ChainCode::kAbs, ChainCode::kKeep, ChainCode::kLoad,
                                  ChainCode::kExp, ChainCode::kStore, ChainCode::kLoad, ChainCode::kStore}));
  const Chain operand = {
      .inputs = 2, .terms = {Term("Abs", {0, -1, -1}), Term("Add", {2, 1, -1})}, .results = {3, 2, 3}};
  EXPECT_EQ(Compiled(operand),
            (Codes{ChainCode::kLoad, ChainCode::kAbs, ChainCode::kKeep, ChainCode::kAdd, ChainCode::kStore,
                   ChainCode::kKeep, ChainCode::kLoad, ChainCode::kStore, ChainCode::kLoad, ChainCode::kStore}));
}

TEST(ChainProgramTest, ThreadsHaveManyElementsWhereTheirSlotsFit) {
  constexpr int64_t kMany = int64_t{1} << 20;
  constexpr size_t kTuring = size_t{64} << 10, kHopper = size_t{227} << 10;
  EXPECT_TRUE(kernels::IsWideChain(kMany, 4, kHopper));
  EXPECT_FALSE(kernels::IsWideChain(kMany - 1, 0, kHopper));
  EXPECT_TRUE(kernels::IsWideChain(kMany, 2, kTuring));
  EXPECT_FALSE(kernels::IsWideChain(kMany, 3, kTuring));
}

}  // namespace
}  // namespace cudaep::ops
