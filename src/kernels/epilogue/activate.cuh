// Activations of epilogues, chosen at run time: the choice is the same for all threads, and what they do between two
// accesses to memory costs nothing.
#pragma once

#include "core/epilogue.h"
#include "kernels/elementwise/gelu.cuh"

namespace cudaep::kernels {

// Calls `each` with the function of an activation, so that a caller with many values chooses once. NaN stays NaN.
template <class C, class Each>
__device__ __forceinline__ void WithActivation(Activation activation, ActivationParameters parameters, Each&& each) {
  const C a = static_cast<C>(parameters.a), b = static_cast<C>(parameters.b);
  const auto clip = [](C x, C least, C most) { return x < least ? least : (x > most ? most : x); };
  switch (activation) {
    case Activation::kRelu:
      return each([](C x) { return x < C(0) ? C(0) : x; });
    case Activation::kGeluErf:
      return each([](C x) { return GeluByErf()(x); });
    case Activation::kGeluTanh:
      return each([](C x) { return GeluByTanh()(x); });
    case Activation::kSigmoid:
      return each([](C x) { return C(1) / (C(1) + std::exp(-x)); });
    case Activation::kSilu:
      return each([](C x) { return x / (C(1) + std::exp(-x)); });
    case Activation::kTanh:
      return each([](C x) { return std::tanh(x); });
    case Activation::kClip:
      return each([=](C x) { return clip(x, a, b); });
    case Activation::kLeakyRelu:
      return each([=](C x) { return x < C(0) ? a * x : x; });
    case Activation::kHardSigmoid:
      return each([=](C x) { return clip(a * x + b, C(0), C(1)); });
    case Activation::kHardSwish:
      return each([=](C x) { return x * clip(x * C(1.0 / 6) + C(0.5), C(0), C(1)); });
    case Activation::kNone:
      break;
  }
}

template <class C>
__device__ __forceinline__ C Activate(Activation activation, ActivationParameters parameters, C x) {
  WithActivation<C>(activation, parameters, [&](auto function) { x = function(x); });
  return x;
}

// For results that are rounded to 16 bits.
__device__ __forceinline__ float ActivateApproximately(Activation activation, ActivationParameters parameters,
                                                       float x) {
  switch (activation) {
    case Activation::kGeluErf:
      return GeluByErf().Approximate(x);
    case Activation::kGeluTanh:
      return GeluByTanh().Approximate(x);
    case Activation::kSigmoid:
      return FastSigmoid(x);
    case Activation::kSilu:
      return x * FastSigmoid(x);
    default:
      return Activate(activation, parameters, x);
  }
}

}  // namespace cudaep::kernels
