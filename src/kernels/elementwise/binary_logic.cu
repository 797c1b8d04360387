// Logic of truth values and of bits.
#include "kernels/elementwise/binary_families.h"
#include "kernels/elementwise/functor_table.cuh"

namespace cudaep::kernels {
namespace {

struct And {
  static constexpr std::string_view kName = "And";
  static constexpr DataTypeSet kTypes = DataType::kBool;
  __device__ __forceinline__ bool operator()(bool a, bool b) const { return a && b; }
};

struct Or {
  static constexpr std::string_view kName = "Or";
  static constexpr DataTypeSet kTypes = DataType::kBool;
  __device__ __forceinline__ bool operator()(bool a, bool b) const { return a || b; }
};

struct Xor {
  static constexpr std::string_view kName = "Xor";
  static constexpr DataTypeSet kTypes = DataType::kBool;
  __device__ __forceinline__ bool operator()(bool a, bool b) const { return a != b; }
};

struct BitwiseAnd {
  static constexpr std::string_view kName = "BitwiseAnd";
  static constexpr DataTypeSet kTypes = kIntTypes;
  static constexpr bool kIgnoresSign = true;
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    return static_cast<T>(a & b);
  }
};

struct BitwiseOr {
  static constexpr std::string_view kName = "BitwiseOr";
  static constexpr DataTypeSet kTypes = kIntTypes;
  static constexpr bool kIgnoresSign = true;
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    return static_cast<T>(a | b);
  }
};

struct BitwiseXor {
  static constexpr std::string_view kName = "BitwiseXor";
  static constexpr DataTypeSet kTypes = kIntTypes;
  static constexpr bool kIgnoresSign = true;
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    return static_cast<T>(a ^ b);
  }
};

// Shifts by as many bits as there are, or more, or by a negative number leave nothing but the sign of what goes right.
template <class T>
__device__ __forceinline__ bool IsWithin(T bits) {
  return static_cast<std::make_unsigned_t<T>>(bits) < 8 * sizeof(T);
}

struct ShiftLeft {
  static constexpr std::string_view kName = "ShiftLeft";
  static constexpr DataTypeSet kTypes = kIntTypes;
  static constexpr bool kIgnoresSign = true;
  template <class T>
  __device__ __forceinline__ T operator()(T a, T bits) const {
    return IsWithin(bits) ? static_cast<T>(static_cast<uint64_t>(a) << bits) : T(0);
  }
};

struct ShiftRight {
  static constexpr std::string_view kName = "ShiftRight";
  static constexpr DataTypeSet kTypes = kIntTypes;
  template <class T>
  __device__ __forceinline__ T operator()(T a, T bits) const {
    return IsWithin(bits) ? static_cast<T>(a >> bits) : a < T(0) ? T(-1) : T(0);
  }
};

}  // namespace

BinaryKernel FindLogicKernel(std::string_view functor, DataType type) {
  return FindBinaryIn<And, Or, Xor, BitwiseAnd, BitwiseOr, BitwiseXor, ShiftLeft, ShiftRight>(functor, type);
}

}  // namespace cudaep::kernels
