// Activations of two tensors: a learned slope, a bias in front.
#include "kernels/elementwise/binary_families.h"
#include "kernels/elementwise/functor_table.cuh"
#include "kernels/elementwise/gelu.cuh"

namespace cudaep::kernels {
namespace {

struct PRelu {
  static constexpr std::string_view kName = "PRelu";
  static constexpr DataTypeSet kTypes =
      kFloatTypes | DataTypeSet{DataType::kInt32, DataType::kInt64, DataType::kUint32, DataType::kUint64};
  template <class T>
  __device__ __forceinline__ T operator()(T x, T slope) const {
    if constexpr (std::is_unsigned_v<T>) {
      return x;
    } else if constexpr (std::is_integral_v<T>) {
      using Unsigned = std::make_unsigned_t<T>;  // wraps
      return x < T(0) ? static_cast<T>(static_cast<Unsigned>(slope) * static_cast<Unsigned>(x)) : x;
    } else {
      return x < T(0) ? slope * x : x;
    }
  }
};

// Gelu(x + bias); the sum is not rounded to 16 bits in between.
template <class Gelu>
struct BiasInFront {
  static constexpr DataTypeSet kTypes = kFloatTypes;
  template <class T>
  __device__ __forceinline__ T operator()(T x, T bias) const {
    return Gelu()(x + bias);
  }
  __device__ __forceinline__ float Approximate(auto x, auto bias) const { return Gelu().Approximate(x + bias); }
};

struct BiasGelu : BiasInFront<GeluByErf> {
  static constexpr std::string_view kName = "BiasGelu";
};

struct BiasFastGelu : BiasInFront<GeluByTanh> {
  static constexpr std::string_view kName = "BiasFastGelu";
};

}  // namespace

BinaryKernel FindBinaryActivationKernel(std::string_view functor, DataType type) {
  return FindBinaryIn<PRelu, BiasGelu, BiasFastGelu>(functor, type);
}

}  // namespace cudaep::kernels
