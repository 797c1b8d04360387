// Sums, differences, products. Integers wrap.
#include "kernels/elementwise/binary_families.h"
#include "kernels/elementwise/functor_table.cuh"

namespace cudaep::kernels {
namespace {

struct Add {
  static constexpr std::string_view kName = "Add";
  static constexpr DataTypeSet kTypes = kNumericTypes;
  static constexpr bool kIgnoresSign = true;
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    return static_cast<T>(a + b);
  }
};

struct Sub {
  static constexpr std::string_view kName = "Sub";
  static constexpr DataTypeSet kTypes = kNumericTypes;
  static constexpr bool kIgnoresSign = true;
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    return static_cast<T>(a - b);
  }
};

struct Mul {
  static constexpr std::string_view kName = "Mul";
  static constexpr DataTypeSet kTypes = kNumericTypes;
  static constexpr bool kIgnoresSign = true;
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    if constexpr (std::is_same_v<T, uint16_t>) {
      return static_cast<T>(uint32_t{a} * b);  // uint16_t promotes to int, which would overflow
    } else {
      return static_cast<T>(a * b);
    }
  }
};

}  // namespace

BinaryKernel FindArithmeticKernel(std::string_view functor, DataType type) {
  return FindBinaryIn<Add, Sub, Mul>(functor, type);
}

}  // namespace cudaep::kernels
