// Questions about one element; the answer is a bool.
#include "kernels/elementwise/functor_math.cuh"
#include "kernels/elementwise/functor_table.cuh"
#include "kernels/elementwise/unary_families.h"

namespace cudaep::kernels {
namespace {

struct Not {
  static constexpr std::string_view kName = "Not";
  static constexpr DataTypeSet kTypes = DataType::kBool;
  static constexpr bool kToBool = true;
  __device__ __forceinline__ bool operator()(bool x) const { return !x; }
};

struct IsNaN {
  static constexpr std::string_view kName = "IsNaN";
  static constexpr DataTypeSet kTypes = kFloatTypes;
  static constexpr bool kToBool = true;
  template <class T>
  __device__ __forceinline__ bool operator()(T x) const {
    return x != x;
  }
};

// alpha and beta say whether negative and positive infinity count.
struct IsInf {
  static constexpr std::string_view kName = "IsInf";
  static constexpr DataTypeSet kTypes = kFloatTypes;
  static constexpr bool kToBool = true;
  bool negative, positive;
  __host__ __device__ IsInf(double alpha, double beta) : negative(alpha != 0), positive(beta != 0) {}
  template <class T>
  __device__ __forceinline__ bool operator()(T x) const {
    return std::isinf(x) && (x < T(0) ? negative : positive);
  }
};

}  // namespace

UnaryKernel FindPredicateKernel(std::string_view functor, DataType type) {
  return FindUnaryIn<Not, IsNaN, IsInf>(functor, type);
}

}  // namespace cudaep::kernels
