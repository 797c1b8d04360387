#include "kernels/elementwise/conversion.cuh"
#include "kernels/elementwise/functor_math.cuh"
#include "kernels/elementwise/functor_table.cuh"
#include "kernels/elementwise/unary_families.h"

namespace cudaep::kernels {
namespace {

struct Abs {
  static constexpr std::string_view kName = "Abs";
  static constexpr DataTypeSet kTypes = kNumericTypes;
  template <class T>
  __device__ __forceinline__ T operator()(T x) const {
    if constexpr (std::is_unsigned_v<T>) {
      return x;
    } else if constexpr (std::is_integral_v<T>) {
      return x < T(0) ? Negate(x) : x;
    } else {
      return std::fabs(x);
    }
  }
};

struct Neg {
  static constexpr std::string_view kName = "Neg";
  static constexpr DataTypeSet kTypes = kFloatTypes | kSignedIntTypes;
  template <class T>
  __device__ __forceinline__ T operator()(T x) const {
    return Negate(x);
  }
};

struct BitwiseNot {
  static constexpr std::string_view kName = "BitwiseNot";
  static constexpr DataTypeSet kTypes = kIntTypes;
  static constexpr bool kIgnoresSign = true;
  template <class T>
  __device__ __forceinline__ T operator()(T x) const {
    return static_cast<T>(~x);
  }
};

// Towards zero by a bias, and zero around it. Integers are compared and moved as fp64, and truncated.
struct Shrink {
  static constexpr std::string_view kName = "Shrink";
  static constexpr DataTypeSet kTypes = kNumericTypes;
  double limit, bias;
  Shrink(double lambd, double shift) : limit(lambd), bias(shift) {}
  template <class T>
  __device__ __forceinline__ T operator()(T x) const {
    using C = std::conditional_t<std::is_integral_v<T>, double, T>;
    const C value = static_cast<C>(x);
    if (value < -static_cast<C>(limit)) return ConvertTo<T>(value + static_cast<C>(bias));
    if (value > static_cast<C>(limit)) return ConvertTo<T>(value - static_cast<C>(bias));
    return T(0);
  }
};

// Zero and NaN are their own signs.
struct Sign {
  static constexpr std::string_view kName = "Sign";
  static constexpr DataTypeSet kTypes = kNumericTypes;
  template <class T>
  __device__ __forceinline__ T operator()(T x) const {
    if constexpr (std::is_signed_v<T>) {
      if (x < T(0)) return T(-1);
    }
    return x > T(0) ? T(1) : x;
  }
};

struct Reciprocal {
  static constexpr std::string_view kName = "Reciprocal";
  static constexpr DataTypeSet kTypes = kFloatTypes;
  template <class T>
  __device__ __forceinline__ T operator()(T x) const {
    return T(1) / x;
  }
  __device__ __forceinline__ float Approximate(auto x) const { return device::FastDivide(1.0f, x); }
};

struct Sqrt {
  static constexpr std::string_view kName = "Sqrt";
  static constexpr DataTypeSet kTypes = kFloatTypes;
  template <class T>
  __device__ __forceinline__ T operator()(T x) const {
    return std::sqrt(x);
  }
};

struct Exp {
  static constexpr std::string_view kName = "Exp";
  static constexpr DataTypeSet kTypes = kFloatTypes;
  template <class T>
  __device__ __forceinline__ T operator()(T x) const {
    return std::exp(x);
  }
};

struct Log {
  static constexpr std::string_view kName = "Log";
  static constexpr DataTypeSet kTypes = kFloatTypes;
  template <class T>
  __device__ __forceinline__ T operator()(T x) const {
    return std::log(x);
  }
};

struct Erf {
  static constexpr std::string_view kName = "Erf";
  static constexpr DataTypeSet kTypes = kFloatTypes;
  template <class T>
  __device__ __forceinline__ T operator()(T x) const {
    return std::erf(x);
  }
};

}  // namespace

UnaryKernel FindMathKernel(std::string_view functor, DataType type) {
  return FindUnaryIn<Abs, BitwiseNot, Neg, Shrink, Sign, Reciprocal, Sqrt, Exp, Log, Erf>(functor, type);
}

}  // namespace cudaep::kernels
