// Activations of epilogues, chosen at run time: the choice is the same for all threads, and what they do between two
// accesses to memory costs nothing.
#pragma once

#include "core/epilogue.h"
#include "kernels/elementwise/gelu.cuh"

namespace cudaep::kernels {

// NaN stays NaN.
template <class C>
__device__ __forceinline__ C Activate(Activation activation, C x) {
  switch (activation) {
    case Activation::kRelu:
      return x < C(0) ? C(0) : x;
    case Activation::kGeluErf:
      return GeluByErf()(x);
    case Activation::kGeluTanh:
      return GeluByTanh()(x);
    case Activation::kSigmoid:
      return C(1) / (C(1) + std::exp(-x));
    case Activation::kSilu:
      return x / (C(1) + std::exp(-x));
    case Activation::kTanh:
      return std::tanh(x);
    case Activation::kNone:
      break;
  }
  return x;
}

}  // namespace cudaep::kernels
