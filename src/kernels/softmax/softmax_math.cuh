// The arithmetic that both softmax kernels share.
#pragma once

#include "kernels/reduce/row_reduce.cuh"

namespace cudaep::kernels {

__device__ __forceinline__ float SoftmaxExp(float x) { return device::FastExp(x); }
__device__ __forceinline__ double SoftmaxExp(double x) { return exp(x); }

// Maximum and sum of exp(x - maximum) of a growing set of values.
template <class C>
struct OnlineSum {
  C max = NegativeInfinity<C>();
  C sum = 0;

  // Raises the maximum to at least `value`; returns what to subtract from new values before SoftmaxExp.
  __device__ __forceinline__ C RaiseMax(C value) {
    const C raised = device::Max(max, value);
    // While all values are -infinity nothing may be subtracted: infinity minus infinity is NaN.
    const C base = raised == NegativeInfinity<C>() ? C(0) : raised;
    sum *= SoftmaxExp(max - base);
    max = raised;
    return base;
  }
};

// What turns x into softmax(x) or log-softmax(x), given the row's maximum and sum.
template <class C>
struct SoftmaxOutput {
  C max, factor;
  bool log;

  __device__ __forceinline__ SoftmaxOutput(C row_max, C row_sum, bool is_log)
      : max(row_max), factor(is_log ? std::log(row_sum) : C(1) / row_sum), log(is_log) {}

  __device__ __forceinline__ C operator()(C x) const { return log ? x - max - factor : SoftmaxExp(x - max) * factor; }
  // From exp(x - max), or from x itself where the logarithm is wanted.
  __device__ __forceinline__ C Finish(C value) const { return log ? value - max - factor : value * factor; }
};

}  // namespace cudaep::kernels
