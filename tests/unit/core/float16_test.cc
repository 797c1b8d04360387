#include "core/float16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace cudaep {
namespace {

// Every one of the 65536 values goes to fp32 and back unchanged (NaN payloads aside).
TEST(Half, RoundTripsEveryValue) {
  for (uint32_t bits = 0; bits < 0x10000u; ++bits) {
    const float value = ToFloat(Half{static_cast<uint16_t>(bits)});
    const uint16_t back = HalfFromFloat(value).bits;
    if (std::isnan(value)) {
      EXPECT_GT(back & 0x7fffu, 0x7c00u) << bits;
    } else {
      EXPECT_EQ(back, bits);
    }
  }
}

TEST(Half, RoundsToNearestEven) {
  EXPECT_EQ(HalfFromFloat(1.0f + 0x1p-11f).bits, HalfFromFloat(1.0f).bits);                // tie to even
  EXPECT_EQ(HalfFromFloat(1.0f + 3 * 0x1p-11f).bits, HalfFromFloat(1.0f + 0x1p-9f).bits);  // tie to even, upwards
  EXPECT_EQ(HalfFromFloat(65519.0f).bits, 0x7bffu);
  EXPECT_EQ(HalfFromFloat(65520.0f).bits, 0x7c00u);
  EXPECT_EQ(HalfFromFloat(0x1p-25f).bits, 0u);  // half the smallest subnormal ties to zero
  EXPECT_EQ(HalfFromFloat(0x1.000002p-25f).bits, 1u);
  EXPECT_EQ(HalfFromFloat(-0.0f).bits, 0x8000u);
}

TEST(BFloat16, RoundsToNearestEven) {
  EXPECT_EQ(BFloat16FromFloat(1.0f + 0x1p-8f).bits, BFloat16FromFloat(1.0f).bits);
  EXPECT_EQ(BFloat16FromFloat(1.0f + 3 * 0x1p-8f).bits, BFloat16FromFloat(1.0f + 0x1p-6f).bits);
  EXPECT_EQ(BFloat16FromFloat(std::numeric_limits<float>::max()).bits, 0x7f80u);
  EXPECT_TRUE(std::isnan(ToFloat(BFloat16FromFloat(std::nanf("")))));
  EXPECT_TRUE(std::isinf(ToFloat(BFloat16FromFloat(INFINITY))));
}

}  // namespace
}  // namespace cudaep
