#include "kernels/elementwise/functor_math.cuh"
#include "kernels/elementwise/functor_table.cuh"
#include "kernels/elementwise/unary_families.h"

namespace cudaep::kernels {
namespace {

struct Floor {
  static constexpr std::string_view kName = "Floor";
  static constexpr DataTypeSet kTypes = kFloatTypes;
  template <class T>
  __device__ __forceinline__ T operator()(T x) const {
    return std::floor(x);
  }
};

struct Ceil {
  static constexpr std::string_view kName = "Ceil";
  static constexpr DataTypeSet kTypes = kFloatTypes;
  template <class T>
  __device__ __forceinline__ T operator()(T x) const {
    return std::ceil(x);
  }
};

// To the nearest integer, halves to the even one.
struct Round {
  static constexpr std::string_view kName = "Round";
  static constexpr DataTypeSet kTypes = kFloatTypes;
  template <class T>
  __device__ __forceinline__ T operator()(T x) const {
    return std::rint(x);
  }
};

}  // namespace

UnaryKernel FindRoundingKernel(std::string_view functor, DataType type) {
  return FindUnaryIn<Floor, Ceil, Round>(functor, type);
}

}  // namespace cudaep::kernels
