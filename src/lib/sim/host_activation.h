// Activations on the host, in the compute type: what the stand-ins of vendor libraries fuse.
#pragma once

#include <cmath>

#include "core/epilogue.h"

namespace cudaep::sim {

template <class C>
C Activate(Activation activation, C x, ActivationParameters parameters = {}) {
  const C a = static_cast<C>(parameters.a), b = static_cast<C>(parameters.b);
  const auto clip = [](C value, C least, C most) { return value < least ? least : (value > most ? most : value); };
  switch (activation) {
    case Activation::kRelu:
      return x < C(0) ? C(0) : x;
    case Activation::kGeluErf:
      return C(0.5) * x * (C(1) + std::erf(x * C(0.70710678118654752440)));
    case Activation::kGeluTanh:
      return x / (C(1) + std::exp(-x * (C(1.5957691216057307118) + C(0.071354816272600248) * x * x)));
    case Activation::kSigmoid:
      return C(1) / (C(1) + std::exp(-x));
    case Activation::kSilu:
      return x / (C(1) + std::exp(-x));
    case Activation::kTanh:
      return std::tanh(x);
    case Activation::kClip:
      return clip(x, a, b);
    case Activation::kLeakyRelu:
      return x < C(0) ? a * x : x;
    case Activation::kHardSigmoid:
      return clip(a * x + b, C(0), C(1));
    case Activation::kHardSwish:
      return x * clip(x * C(1.0 / 6) + C(0.5), C(0), C(1));
    case Activation::kNone:
      break;
  }
  return x;
}

}  // namespace cudaep::sim
