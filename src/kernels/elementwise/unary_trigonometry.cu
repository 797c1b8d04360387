// Circular and hyperbolic functions, each by the function of its name: full accuracy in fp32, any argument.
#include "kernels/elementwise/functor_math.cuh"
#include "kernels/elementwise/functor_table.cuh"
#include "kernels/elementwise/unary_families.h"

namespace cudaep::kernels {
namespace {

struct Sin {
  static constexpr std::string_view kName = "Sin";
  static constexpr DataTypeSet kTypes = kFloatTypes;
  template <class T>
  __device__ __forceinline__ T operator()(T x) const {
    return std::sin(x);
  }
};

struct Cos {
  static constexpr std::string_view kName = "Cos";
  static constexpr DataTypeSet kTypes = kFloatTypes;
  template <class T>
  __device__ __forceinline__ T operator()(T x) const {
    return std::cos(x);
  }
};

struct Tan {
  static constexpr std::string_view kName = "Tan";
  static constexpr DataTypeSet kTypes = kFloatTypes;
  template <class T>
  __device__ __forceinline__ T operator()(T x) const {
    return std::tan(x);
  }
};

struct Asin {
  static constexpr std::string_view kName = "Asin";
  static constexpr DataTypeSet kTypes = kFloatTypes;
  template <class T>
  __device__ __forceinline__ T operator()(T x) const {
    return std::asin(x);
  }
};

struct Acos {
  static constexpr std::string_view kName = "Acos";
  static constexpr DataTypeSet kTypes = kFloatTypes;
  template <class T>
  __device__ __forceinline__ T operator()(T x) const {
    return std::acos(x);
  }
};

struct Atan {
  static constexpr std::string_view kName = "Atan";
  static constexpr DataTypeSet kTypes = kFloatTypes;
  template <class T>
  __device__ __forceinline__ T operator()(T x) const {
    return std::atan(x);
  }
};

struct Sinh {
  static constexpr std::string_view kName = "Sinh";
  static constexpr DataTypeSet kTypes = kFloatTypes;
  template <class T>
  __device__ __forceinline__ T operator()(T x) const {
    return std::sinh(x);
  }
};

struct Cosh {
  static constexpr std::string_view kName = "Cosh";
  static constexpr DataTypeSet kTypes = kFloatTypes;
  template <class T>
  __device__ __forceinline__ T operator()(T x) const {
    return std::cosh(x);
  }
};

struct Asinh {
  static constexpr std::string_view kName = "Asinh";
  static constexpr DataTypeSet kTypes = kFloatTypes;
  template <class T>
  __device__ __forceinline__ T operator()(T x) const {
    return std::asinh(x);
  }
};

struct Acosh {
  static constexpr std::string_view kName = "Acosh";
  static constexpr DataTypeSet kTypes = kFloatTypes;
  template <class T>
  __device__ __forceinline__ T operator()(T x) const {
    return std::acosh(x);
  }
};

struct Atanh {
  static constexpr std::string_view kName = "Atanh";
  static constexpr DataTypeSet kTypes = kFloatTypes;
  template <class T>
  __device__ __forceinline__ T operator()(T x) const {
    return std::atanh(x);
  }
};

}  // namespace

UnaryKernel FindTrigonometryKernel(std::string_view functor, DataType type) {
  return FindUnaryIn<Sin, Cos, Tan, Asin, Acos, Atan, Sinh, Cosh, Asinh, Acosh, Atanh>(functor, type);
}

}  // namespace cudaep::kernels
