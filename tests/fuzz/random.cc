#include "random.h"

#include <cmath>
#include <limits>

namespace cudaep::fuzz {

int64_t Random::Integer() {
  if (!OneIn(4)) return Between(-3, 9);
  if (OneIn(3)) return static_cast<int64_t>(Next());
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min(), kMost = std::numeric_limits<int64_t>::max();
  return Pick<int64_t>({kLeast,
                        kLeast + 1,
                        kMost,
                        kMost - 1,
                        int64_t{1} << 31,
                        (int64_t{1} << 31) - 1,
                        -(int64_t{1} << 31),
                        -(int64_t{1} << 31) - 1,
                        int64_t{1} << 32,
                        (int64_t{1} << 32) + 1,
                        int64_t{1} << 40,
                        int64_t{1} << 62,
                        -(int64_t{1} << 62),
                        65535,
                        65536,
                        1023,
                        1024,
                        1025,
                        -100,
                        1 << 20,
                        1 << 24});
}

float Random::Real() {
  if (OneIn(2)) return static_cast<float>(Between(-40, 40)) * 0.25f;
  constexpr float kMost = std::numeric_limits<float>::max(), kLeast = std::numeric_limits<float>::denorm_min();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  return Pick({0.0f, -0.0f, 1.0f, -1.0f, kMost, -kMost, kLeast, kInfinity, -kInfinity, std::nanf(""), 1e-30f, 1e9f,
               2147483648.0f, 9.3e18f});
}

std::string Random::Text() {
  static const std::vector<std::string> kPieces = {"",
                                                   "0",
                                                   "1",
                                                   "-1",
                                                   "true",
                                                   "NaN",
                                                   "1e9",
                                                   "0x",
                                                   "0x10",
                                                   " ",
                                                   "\t",
                                                   "\n",
                                                   "abc",
                                                   "%s%n",
                                                   "\"",
                                                   "\\",
                                                   ",",
                                                   "=",
                                                   ".",
                                                   "::",
                                                   "é",
                                                   "\xf0\x9f\x98\x80",
                                                   "\xff\xfe",
                                                   "\xc3",
                                                   "\xed\xa0\x80",
                                                   "\xc0\x80",
                                                   "\x01",
                                                   "\x7f",
                                                   "18446744073709551615",
                                                   "18446744073709551616",
                                                   "9223372036854775808",
                                                   "-9223372036854775809",
                                                   "99999999999999999999999999999999"};
  if (OneIn(200)) return std::string(Below(1 << 20), static_cast<char>(Between(1, 255)));
  std::string text;
  for (size_t i = 0, count = Below(4) + 1; i < count; ++i) {
    text += OneIn(5) ? std::string(Below(300), static_cast<char>(Between(1, 255))) : Pick(kPieces);
  }
  return text;
}

}  // namespace cudaep::fuzz
