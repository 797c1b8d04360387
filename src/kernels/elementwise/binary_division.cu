// Quotients and remainders. A device does not trap on x / 0 with integers: the result, unspecified by ONNX, is 0 here.
#include "kernels/elementwise/binary_families.h"
#include "kernels/elementwise/functor_math.cuh"
#include "kernels/elementwise/functor_table.cuh"

namespace cudaep::kernels {
namespace {

// Integers are divided towards zero; lowest / -1 wraps.
struct Div {
  static constexpr std::string_view kName = "Div";
  static constexpr DataTypeSet kTypes = kNumericTypes;
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      if (b == T(0)) return T(0);
      if constexpr (std::is_signed_v<T>) {
        if (b == T(-1)) return Negate(a);
      }
    }
    return static_cast<T>(a / b);
  }
};

// a % b of C for integers, without the overflow of lowest % -1.
template <class T>
__device__ __forceinline__ T TruncatedRemainder(T a, T b) {
  if (b == T(0)) return T(0);
  if constexpr (std::is_signed_v<T>) {
    if (b == T(-1)) return T(0);
  }
  return static_cast<T>(a % b);
}

// The result has the sign of the divisor, as Python's %; of a float that is 0, too.
struct Mod {
  static constexpr std::string_view kName = "Mod";
  static constexpr DataTypeSet kTypes = kNumericTypes;
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      const T r = std::fmod(a, b);
      if (r == T(0)) return std::copysign(r, b);
      return (r < T(0)) != (b < T(0)) ? r + b : r;
    } else if constexpr (std::is_unsigned_v<T>) {
      return TruncatedRemainder(a, b);
    } else {
      const T r = TruncatedRemainder(a, b);
      return r != T(0) && (r < T(0)) != (b < T(0)) ? static_cast<T>(r + b) : r;
    }
  }
};

// The result has the sign of the dividend, as C's fmod.
struct FMod {
  static constexpr std::string_view kName = "FMod";
  static constexpr DataTypeSet kTypes = kNumericTypes;
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      return TruncatedRemainder(a, b);
    } else {
      return std::fmod(a, b);
    }
  }
};

}  // namespace

BinaryKernel FindDivisionKernel(std::string_view functor, DataType type) {
  return FindBinaryIn<Div, Mod, FMod>(functor, type);
}

}  // namespace cudaep::kernels
