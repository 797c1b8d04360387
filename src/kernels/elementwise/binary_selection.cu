// The larger and the smaller of two elements, NaN if either is.
#include "kernels/elementwise/binary_families.h"
#include "kernels/elementwise/functor_math.cuh"
#include "kernels/elementwise/functor_table.cuh"

namespace cudaep::kernels {
namespace {

struct Max {
  static constexpr std::string_view kName = "Max";
  static constexpr DataTypeSet kTypes = kNumericTypes;
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    return MaxOf(a, b);
  }
};

struct Min {
  static constexpr std::string_view kName = "Min";
  static constexpr DataTypeSet kTypes = kNumericTypes;
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    return MinOf(a, b);
  }
};

}  // namespace

BinaryKernel FindSelectionKernel(std::string_view functor, DataType type) {
  return FindBinaryIn<Max, Min>(functor, type);
}

}  // namespace cudaep::kernels
