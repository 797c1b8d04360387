// Comparisons. Those for "greater" are these with the operands swapped; every one with NaN is false.
#include "kernels/elementwise/binary_families.h"
#include "kernels/elementwise/functor_table.cuh"

namespace cudaep::kernels {
namespace {

struct Equal {
  static constexpr std::string_view kName = "Equal";
  static constexpr DataTypeSet kTypes = kNumericTypes | DataTypeSet(DataType::kBool);
  static constexpr bool kToBool = true;
  static constexpr bool kIgnoresSign = true;
  template <class T>
  __device__ __forceinline__ bool operator()(T a, T b) const {
    return a == b;
  }
};

struct Less {
  static constexpr std::string_view kName = "Less";
  static constexpr DataTypeSet kTypes = kNumericTypes;
  static constexpr bool kToBool = true;
  template <class T>
  __device__ __forceinline__ bool operator()(T a, T b) const {
    return a < b;
  }
};

struct LessOrEqual {
  static constexpr std::string_view kName = "LessOrEqual";
  static constexpr DataTypeSet kTypes = kNumericTypes;
  static constexpr bool kToBool = true;
  template <class T>
  __device__ __forceinline__ bool operator()(T a, T b) const {
    return a <= b;
  }
};

}  // namespace

BinaryKernel FindComparisonKernel(std::string_view functor, DataType type) {
  return FindBinaryIn<Equal, Less, LessOrEqual>(functor, type);
}

}  // namespace cudaep::kernels
