// Chains as steps of the machine.
#include "ops/elementwise/chain_program.h"

#include <gtest/gtest.h>

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

TEST(ChainProgramTest, QuotientsAreProductsWhereSixteenBitsAreLeft) {
  const Chain chain = {.inputs = 1, .terms = {Term("Div", {0, -1, -1}, {3})}, .results = {1}};
  EXPECT_EQ(Compiled(chain, true), (Codes{ChainCode::kLoad, ChainCode::kAffine, ChainCode::kStore}));
  EXPECT_EQ(Compiled(chain, false), (Codes{ChainCode::kLoad, ChainCode::kDivide, ChainCode::kStore}));
  for (const float number : {0.0f, 2e38f}) {  // whose reciprocal is no normal number
    Chain limit = chain;
    limit.terms[0].numbers[0] = number;
    EXPECT_EQ(Compiled(limit, true)[1], ChainCode::kFastDivide) << number;
  }
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

TEST(ChainProgramTest, FirstResultIsStoredLast) {
  const Chain chain = {.inputs = 2, .terms = {Term("Abs", {0, -1, -1}), Term("Exp", {1, -1, -1})}, .results = {3, 2}};
  const auto program = CompileChain(chain, false);
  ASSERT_TRUE(program.ok());
  EXPECT_EQ(program.value().steps[static_cast<size_t>(program.value().size - 1)].place(), 0u);
}

}  // namespace
}  // namespace cudaep::ops
