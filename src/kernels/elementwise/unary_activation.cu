// Activations with and without parameters. Comparisons are written so that NaN stays NaN.
#include "kernels/elementwise/functor_math.cuh"
#include "kernels/elementwise/functor_table.cuh"
#include "kernels/elementwise/unary_families.h"

namespace cudaep::kernels {
namespace {

struct Relu {
  static constexpr std::string_view kName = "Relu";
  static constexpr DataTypeSet kTypes = kFloatTypes | kSignedIntTypes;
  template <class T>
  __device__ __forceinline__ T operator()(T x) const {
    return x < T(0) ? T(0) : x;
  }
};

struct Sigmoid {
  static constexpr std::string_view kName = "Sigmoid";
  static constexpr DataTypeSet kTypes = kFloatTypes;
  template <class T>
  __device__ __forceinline__ T operator()(T x) const {
    return T(1) / (T(1) + std::exp(-x));
  }
  __device__ __forceinline__ float Approximate(auto x) const { return FastSigmoid(x); }
};

struct Tanh {
  static constexpr std::string_view kName = "Tanh";
  static constexpr DataTypeSet kTypes = kFloatTypes;
  template <class T>
  __device__ __forceinline__ T operator()(T x) const {
    return std::tanh(x);
  }
  __device__ __forceinline__ float Approximate(auto x) const { return FastTanhOf(x); }
};

struct Softplus {
  static constexpr std::string_view kName = "Softplus";
  static constexpr DataTypeSet kTypes = kFloatTypes;
  template <class T>
  __device__ __forceinline__ T operator()(T x) const {
    return SoftplusOf(x);
  }
};

struct Softsign {
  static constexpr std::string_view kName = "Softsign";
  static constexpr DataTypeSet kTypes = kFloatTypes;
  template <class T>
  __device__ __forceinline__ T operator()(T x) const {
    return x / (T(1) + std::fabs(x));
  }
};

struct Mish {
  static constexpr std::string_view kName = "Mish";
  static constexpr DataTypeSet kTypes = kFloatTypes;
  template <class T>
  __device__ __forceinline__ T operator()(T x) const {
    return x * std::tanh(SoftplusOf(x));
  }
};

struct HardSwish {
  static constexpr std::string_view kName = "HardSwish";
  static constexpr DataTypeSet kTypes = kFloatTypes;
  template <class T>
  __device__ __forceinline__ T operator()(T x) const {
    return x * ClampTo(x * T(1.0 / 6) + T(0.5), T(0), T(1));
  }
};

// alpha is the slope, beta the value at 0.
struct HardSigmoid {
  static constexpr std::string_view kName = "HardSigmoid";
  static constexpr DataTypeSet kTypes = kFloatTypes;
  double alpha, beta;
  __host__ __device__ HardSigmoid(double a, double b) : alpha(a), beta(b) {}
  template <class T>
  __device__ __forceinline__ T operator()(T x) const {
    return ClampTo(static_cast<T>(alpha) * x + static_cast<T>(beta), T(0), T(1));
  }
};

// The schema's bounds before version 11: alpha is the lower, beta the upper one.
struct ClipToConstants {
  static constexpr std::string_view kName = "ClipToConstants";
  static constexpr DataTypeSet kTypes = kFloatTypes;
  double alpha, beta;
  __host__ __device__ ClipToConstants(double a, double b) : alpha(a), beta(b) {}
  template <class T>
  __device__ __forceinline__ T operator()(T x) const {
    const T low = static_cast<T>(alpha), high = static_cast<T>(beta);
    return MinOf(MaxOf(x, low), high);
  }
};

struct LeakyRelu {
  static constexpr std::string_view kName = "LeakyRelu";
  static constexpr DataTypeSet kTypes = kFloatTypes;
  double alpha;
  __host__ __device__ LeakyRelu(double a, double) : alpha(a) {}
  template <class T>
  __device__ __forceinline__ T operator()(T x) const {
    return x < T(0) ? static_cast<T>(alpha) * x : x;
  }
};

struct ThresholdedRelu {
  static constexpr std::string_view kName = "ThresholdedRelu";
  static constexpr DataTypeSet kTypes = kFloatTypes;
  double alpha;
  __host__ __device__ ThresholdedRelu(double a, double) : alpha(a) {}
  template <class T>
  __device__ __forceinline__ T operator()(T x) const {
    return x > static_cast<T>(alpha) ? x : T(0);
  }
};

struct Elu {
  static constexpr std::string_view kName = "Elu";
  static constexpr DataTypeSet kTypes = kFloatTypes;
  double alpha;
  __host__ __device__ Elu(double a, double) : alpha(a) {}
  template <class T>
  __device__ __forceinline__ T operator()(T x) const {
    return x < T(0) ? static_cast<T>(alpha) * std::expm1(x) : x;
  }
};

struct Celu {
  static constexpr std::string_view kName = "Celu";
  static constexpr DataTypeSet kTypes = kFloatTypes;
  double alpha;
  __host__ __device__ Celu(double a, double) : alpha(a) {}
  template <class T>
  __device__ __forceinline__ T operator()(T x) const {
    // max(0, x) + min(0, alpha * (exp(x / alpha) - 1)); the second term has the sign of x, whatever alpha's is.
    const T a = static_cast<T>(alpha);
    return MaxOf(T(0), x) + MinOf(T(0), a * std::expm1(x / a));
  }
};

// gamma * (x, or alpha * (exp(x) - 1) below 0); beta is gamma.
struct Selu {
  static constexpr std::string_view kName = "Selu";
  static constexpr DataTypeSet kTypes = kFloatTypes;
  double alpha, gamma;
  __host__ __device__ Selu(double a, double g) : alpha(a), gamma(g) {}
  template <class T>
  __device__ __forceinline__ T operator()(T x) const {
    return static_cast<T>(gamma) * (x < T(0) ? static_cast<T>(alpha) * std::expm1(x) : x);
  }
};

// x * sigmoid(alpha * x).
struct Swish {
  static constexpr std::string_view kName = "Swish";
  static constexpr DataTypeSet kTypes = kFloatTypes;
  double alpha;
  __host__ __device__ Swish(double a, double) : alpha(a) {}
  template <class T>
  __device__ __forceinline__ T operator()(T x) const {
    return x / (T(1) + std::exp(-static_cast<T>(alpha) * x));
  }
  __device__ __forceinline__ float Approximate(auto x) const { return x * FastSigmoid(static_cast<float>(alpha) * x); }
};

}  // namespace

UnaryKernel FindActivationKernel(std::string_view functor, DataType type) {
  return FindUnaryIn<Relu, Sigmoid, Tanh, Softplus, Softsign, Mish, HardSwish, HardSigmoid, ClipToConstants, LeakyRelu,
                     ThresholdedRelu, Elu, Celu, Selu, Swish>(functor, type);
}

}  // namespace cudaep::kernels
