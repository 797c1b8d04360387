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

  // NormalCdf, relative error below 1.2e-5 for every x with a result above the smallest normal number.
  // exp(z^2) erfc(z) / 2 is t p(t) with z = |x| / sqrt(2), t = 1 / (1 + 0.44 z) and the polynomial p of least relative
  // error, fitted for z from 0 to 10.5 by Lawson's iteration: 5.3e-6. The root of exp(-z^2) does not underflow there.
  static __device__ __forceinline__ float FastNormalCdf(float x) {
    float t = fmaf(std::fabs(x), 0.44f * 0.70710678f, 1.0f);
#if defined(__CUDA_ARCH__)
    asm("rcp.approx.ftz.f32 %0, %0;" : "+f"(t));
#else
    t = 1.0f / t;
#endif
    const float p =
        0.124280276f +
        t * (0.121287108f + t * (0.131784208f + t * (0.020382011f + t * (0.175311750f + t * -0.073047918f))));
    const float root = device::FastExp2(x * x * -0.36067376f);
    const float tail = t * p * root * root;
    return x < 0 ? tail : 1.0f - tail;
  }
};

// GeluByErf for results that are rounded to T, 16 bits: of few instructions, one of them 2^x.
//
// The logarithm of the distribution at -|x| is nearly a parabola. Polynomials of least error, by Lawson's iteration:
// for fp16 up to |x| = 5.8, where results vanish, 8e-5 of those that are normal numbers, a sixth of what rounding
// loses; for bf16 up to 13.5 6e-4, a third. Beyond they fall fast enough.
template <class T>
__device__ __forceinline__ float RoundedGelu(float x) {
  const float size = fminf(std::fabs(x), 30.0f);
  const auto polynomial = [&]<int kTerms>(const float(&term)[kTerms]) {
    float sum = term[kTerms - 1];
#pragma unroll
    for (int i = kTerms - 2; i >= 0; --i) sum = fmaf(sum, size, term[i]);
    return sum;
  };
  if constexpr (std::is_same_v<T, Half>) {
    constexpr float kTerms[] = {-1.00012059f,   -1.14917658f,   -0.464120196f,
                                -0.0482374992f, 0.00582731342f, -0.000320510677f};
    const float tail = device::FastExp2(polynomial(kTerms));
    return x * (x < 0 ? tail : 1.0f - tail);
  } else {  // a root of the tail does not underflow where results in bf16 do not
    constexpr float kTerms[] = {-1.00086539f,   -1.1421863f,      -0.474008032f, -0.0438526789f,
                                0.00532068378f, -0.000401773594f, 1.680781e-05f, -2.95734806e-07f};
    const float root = device::FastExp2(0.5f * polynomial(kTerms));
    return x < 0 ? x * root * root : x * (1.0f - root * root);
  }
}

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
