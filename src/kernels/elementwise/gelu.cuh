// Gaussian error linear units, exact and by tanh.
#pragma once

#include "kernels/elementwise/functor_math.cuh"

namespace cudaep::kernels {

// x * (integral of the standard normal distribution up to x).
struct GeluByErf {
  template <class T>
  __device__ __forceinline__ T operator()(T x) const {
    // Not (1 + erf) / 2, which has no digits left for negative x.
    return x * NormalCdf(x);
  }
  __device__ __forceinline__ float Approximate(auto x) const { return x * FastNormalCdf(x); }
};

// 0.5 x (1 + tanh(y)) with y = sqrt(2 / pi) (x + 0.044715 x^3), written as x sigmoid(2 y), which keeps its digits for
// negative x.
struct GeluByTanh {
  template <class T>
  __device__ __forceinline__ T operator()(T x) const {
    return x / (T(1) + std::exp(-TwoY(x)));
  }
  __device__ __forceinline__ float Approximate(auto x) const { return x * FastSigmoid(TwoY(x)); }

  template <class T>
  static __device__ __forceinline__ T TwoY(T x) {
    return x * (T(1.5957691216057307118) + T(0.071354816272600248) * x * x);
  }
};

}  // namespace cudaep::kernels
