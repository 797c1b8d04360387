// Codes by a reciprocal are those by a division.
#include "kernels/quant/code_reciprocal.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace cudaep::kernels {
namespace {

TEST(CodeReciprocalTest, IntegersAreThoseOfDivisions) {
  std::mt19937 random(5);
  std::uniform_real_distribution<float> mantissa(1, 2), code(-255, 255);
  std::uniform_int_distribution<int> exponent(-60, 59), half(-255, 254);
  int by_one = 0;  // that one multiplication gets wrong
  for (int s = 0; s < 2000; ++s) {
    const float scale =
        std::ldexp(s % 4 == 0 ? 2 - std::ldexp(static_cast<float>(s), -23) : mantissa(random), exponent(random));
    const auto reciprocal = CodeReciprocalOf(scale);
    ASSERT_TRUE(reciprocal) << scale;
    for (int i = 0; i < 500; ++i) {
      float number = code(random) * scale;
      if (i % 2 == 0) {
        number = std::nextafter((static_cast<float>(half(random)) + 0.5f) * scale, i % 4 == 0 ? 0.0f : scale);
      }
      ASSERT_EQ(std::rint(reciprocal->Quotient(number)), std::rint(number / scale)) << number << " / " << scale;
      by_one += std::rint(number * reciprocal->high) != std::rint(number / scale);
    }
  }
  EXPECT_GT(by_one, 0);
}

TEST(CodeReciprocalTest, ScalesThatOverflowHaveNone) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float scale : {0.0f, -1.0f, 0x1p-61f, 0x1.1p60f, kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
    EXPECT_FALSE(CodeReciprocalOf(scale)) << scale;
  }
}

}  // namespace
}  // namespace cudaep::kernels
