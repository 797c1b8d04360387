#include "kernels/quant/code_reciprocal.h"

#include <limits>

namespace cudaep::kernels {
namespace {

constexpr int kMostCode = 255;
constexpr int kReach = 2;  // fp32 numbers to either side of a half that are tested; others differ by more than errors

}  // namespace

std::optional<CodeReciprocal> CodeReciprocalOf(float scale) {
  if (!IsModerateScale(scale)) return std::nullopt;
  const float high = 1.0f / scale;
  const CodeReciprocal reciprocal{.high = high, .low = static_cast<float>(1.0 / double{scale} - double{high})};
  for (int code = 0; code <= kMostCode; ++code) {
    auto number = static_cast<float>((code + 0.5) * double{scale});
    for (int i = 0; i < kReach; ++i) number = std::nextafter(number, 0.0f);
    for (int i = 0; i <= 2 * kReach; ++i) {
      if (std::rint(reciprocal.Quotient(number)) != std::rint(number / scale)) return std::nullopt;
      number = std::nextafter(number, std::numeric_limits<float>::max());
    }
  }
  return reciprocal;
}

}  // namespace cudaep::kernels
