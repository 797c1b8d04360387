// Whole numbers within bounds, as a range makes them of numbers.
#include "kernels/quant/whole_range.cuh"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <utility>

namespace cudaep::kernels {
namespace {

constexpr float kInfinite = std::numeric_limits<float>::infinity(), kNoNumber = std::numeric_limits<float>::quiet_NaN();

TEST(WholeRangeTest, TiesBoundsAndWhatIsNoNumber) {
  struct Case {
    float least, most, x, wanted;
  };
  for (const Case& c : {
           Case{-128, 127, 0.5f, 0},
           {-128, 127, 1.5f, 2},
           {-128, 127, -0.5f, 0},
           {-128, 127, -2.5f, -2},
           {-125, 130, 0.5f, 0},  // an odd lower bound
           {-125, 130, 1.5f, 2},
           {-128, 127, 126.5f, 126},
           {-128, 127, 127.5f, 127},
           {-128, 127, -128.5f, -128},
           {-128, 127, -127.5f, -128},
           {0, 255, 255.5f, 255},
           {0, 255, -1, 0},
           {-200, 55, -200, -200},
           {-200, 55, 1e30f, 55},
           {-200, 55, -1e30f, -200},
           {0, 90, 90.4f, 90},  // narrower
           {0, 90, 200, 90},
           {7, 7, -3, 7},
           {7, 7, 300, 7},
           {-128, 127, kInfinite, 127},
           {-128, 127, -kInfinite, -128},
           {-128, 127, kNoNumber, -128},
       }) {
    EXPECT_EQ(WholeRange::Of(c.least, c.most).Whole(c.x), c.wanted) << c.least << ' ' << c.most << ' ' << c.x;
  }
}

// Codes of both types, of ranges as ReLU and the like leave them, with zero points at the ends and beside them.
TEST(WholeBytesTest, CodesOfEveryRange) {
  for (const int lowest : {-128, 0}) {
    for (const int zero : {0, 1, 3, 127, 128, 254, 255}) {
      for (const auto& [low, high] : {std::pair{0, 255}, {zero, 255}, {0, zero}, {zero, zero}, {5, 90}, {200, 201}}) {
        const int shift = zero + lowest;  // from whole numbers to codes
        const auto range = WholeRange::Of(static_cast<float>(low - zero), static_cast<float>(high - zero));
        const auto bytes = WholeBytes::Of(range, shift);
        const auto raised = [&](float x) { return bytes.Raised(range.Unbounded(x)); };
        const auto code = [&](float x) {
          const float whole = std::isnan(x) ? -kInfinite : std::nearbyint(x);
          const auto number = std::clamp(whole, static_cast<float>(low - zero), static_cast<float>(high - zero));
          return static_cast<uint32_t>(static_cast<int>(number) + shift) & 0xffu;
        };
        for (const float x : {-300.0f, -2.5f, -0.5f, 0.0f, 0.5f, 1.5f, 77.25f, 126.5f, 300.0f, kInfinite, kNoNumber}) {
          const uint32_t pair = bytes.Join(raised(x), raised(-x));
          EXPECT_EQ(pair & 0xffffu, code(x) | code(-x) << 8) << lowest << ' ' << zero << ' ' << low << ' ' << x;
          EXPECT_EQ(bytes.Join(raised(3), raised(x), raised(-x), raised(x + 1)),
                    code(3) | code(x) << 8 | code(-x) << 16 | code(x + 1) << 24)
              << lowest << ' ' << zero << ' ' << low << ' ' << x;
        }
      }
    }
  }
}

TEST(WholeRangeTest, OffByATieAtMost) {
  std::mt19937 generator(7);
  std::uniform_real_distribution<float> factors(0.001f, 3), numbers(-300, 300), terms(-50, 50);
  for (int i = 0; i < 100000; ++i) {
    const float factor = factors(generator), x = numbers(generator), term = terms(generator);
    const auto least = static_cast<float>(static_cast<int>(generator() % 256) - 255);
    const WholeRange range = WholeRange::Of(least, least + 255, factor);
    const double number = double{x} * factor + term;
    const float start = fmaf(term, kInverseWholeRange, range.scaled_start);
    const double off =
        std::abs(range.Whole(x, range.scaled_factor, start) - std::clamp(number, double{least}, double{least} + 255));
    ASSERT_LE(off, 0.5 + 0x1p-16) << factor << ' ' << x << ' ' << term << ' ' << least;
  }
}

}  // namespace
}  // namespace cudaep::kernels
