// Activations on the host, in the compute type: what the stand-ins of vendor libraries fuse.
#pragma once

#include <cmath>

#include "core/epilogue.h"

namespace cudaep::sim {

template <class C>
C Activate(Activation activation, C x) {
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
    case Activation::kNone:
      break;
  }
  return x;
}

}  // namespace cudaep::sim
