// Elements as unsigned words, for sorting.
#pragma once

#include <bit>
#include <type_traits>

#include "device/launch.h"

namespace cudaep::kernels {

// An unsigned word that orders as the elements do: NaN above all numbers, zeros of both signs equal.
template <class T>
struct KeyOf {
  static constexpr int kBits = static_cast<int>(sizeof(T)) * 8;
  using Word = std::conditional_t<
      sizeof(T) == 1, uint8_t,
      std::conditional_t<sizeof(T) == 2, uint16_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>>;
  static constexpr Word kSign = static_cast<Word>(Word{1} << (kBits - 1));

  static __device__ __forceinline__ Word Make(T value) {
    const Word bits = std::bit_cast<Word>(value);
    if constexpr (std::is_unsigned_v<T>) {
      return bits;
    } else if constexpr (std::is_integral_v<T>) {
      return static_cast<Word>(bits ^ kSign);
    } else {
      if (const auto number = Load(value); number != number) return static_cast<Word>(~Word{0});
      if (static_cast<Word>(bits << 1) == 0) return kSign;  // both zeros
      return (bits & kSign) != 0 ? static_cast<Word>(~bits) : static_cast<Word>(bits | kSign);
    }
  }
};

}  // namespace cudaep::kernels
