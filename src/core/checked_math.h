// 64-bit integer arithmetic that reports overflow, for sizes and offsets taken from models.
#pragma once

#include <cstdint>
#include <limits>

namespace cudaep {

// Sets `*out` and returns true, or returns false on overflow.
template <class T>
[[nodiscard]] bool CheckedMultiply(T a, T b, T* out) {
  return !__builtin_mul_overflow(a, b, out);
}
template <class T>
[[nodiscard]] bool CheckedAdd(T a, T b, T* out) {
  return !__builtin_add_overflow(a, b, out);
}

template <class T>
constexpr T CeilDiv(T value, T divisor) {
  return value / divisor + (value % divisor != 0);
}

// `alignment` must be a power of two.
template <class T>
constexpr T AlignUp(T value, T alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
}

// Whether every value up to and including `value` can be indexed with int32_t.
constexpr bool FitsInt32(int64_t value) { return value <= std::numeric_limits<int32_t>::max(); }

}  // namespace cudaep
