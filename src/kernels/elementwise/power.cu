#include "kernels/elementwise/conversion.cuh"
#include "kernels/elementwise/functor_math.cuh"
#include "kernels/elementwise/functor_table.cuh"
#include "kernels/elementwise/power.h"

namespace cudaep::kernels {
namespace {

constexpr DataTypeSet kBaseTypes = kFloatTypes | kIndexTypes;

template <class T, class E>
__device__ __forceinline__ T IntegerPower(T base, E exponent) {
  using Unsigned = std::make_unsigned_t<T>;
  if (exponent < 0) {
    if (base == T(1)) return T(1);
    if (base == T(-1)) return exponent % 2 == 0 ? T(1) : T(-1);
    return T(0);
  }
  Unsigned result = 1, square = static_cast<Unsigned>(base);
  for (E rest = exponent; rest != 0; rest /= 2) {
    if (rest % 2 != 0) result *= square;
    square *= square;
  }
  return static_cast<T>(result);
}

// A power that is an integer may come out an ulp or two beside it on a GPU, which cutting off the fraction would make
// a whole one.
__device__ __forceinline__ double SnappedPower(double base, double exponent) {
  constexpr double kUlps = 1e-15;
  const double power = std::pow(base, exponent), whole = std::nearbyint(power);
  return std::fabs(power - whole) <= kUlps * std::fabs(whole) ? whole : power;
}

// T and E are compute types.
struct Power {
  template <class T, class E>
  __device__ __forceinline__ T operator()(T base, E exponent) const {
    if constexpr (std::is_integral_v<T> && std::is_integral_v<E>) {
      return IntegerPower(base, exponent);
    } else if constexpr (std::is_integral_v<T>) {
      return ConvertTo<T>(SnappedPower(static_cast<double>(base), static_cast<double>(exponent)));
    } else {
      // Squares and roots are what models ask for; the branch is uniform where the exponent is one repeated element.
      if (exponent == E(2)) return base * base;
      if (exponent == E(1)) return base;
      if (exponent == E(0.5) && base > T(0)) return std::sqrt(base);
      return static_cast<T>(std::pow(static_cast<E>(base), exponent));
    }
  }
};

template <class T, class E>
Status LaunchPower(const BinaryArgs& args, device::Stream stream) {
  return LaunchElementwise<Power, T, T, E>(Power{}, {args.a, args.b}, args.y, *args.broadcast, stream);
}

}  // namespace

DataType PowerExponentType(DataType base, DataType exponent) {
  if (exponent == base || exponent == DataType::kDouble) return exponent;
  return kIndexTypes.Contains(base) && kIntTypes.Contains(exponent) ? DataType::kInt64 : DataType::kDouble;
}

BinaryKernel FindPowerKernel(DataType base, DataType exponent) {
  return VisitType<kBaseTypes, BinaryKernel>(base, nullptr, [&]<class T>() -> BinaryKernel {
    if (exponent == base) return &LaunchPower<T, T>;
    if (exponent == DataType::kDouble) return &LaunchPower<T, double>;
    if constexpr (std::is_integral_v<T>) {
      if (exponent == DataType::kInt64) return &LaunchPower<T, int64_t>;
    }
    return nullptr;
  });
}

}  // namespace cudaep::kernels
