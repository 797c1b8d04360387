// What response normalisation multiplies by where its exponent is the usual one.
#pragma once

#include <cmath>
#include <limits>

#include "core/data_type_traits.h"
#include "device/launch.h"
#include "kernels/norm/lrn.h"

namespace cudaep::kernels {

// Whether Damping serves: the base of the power is a normal number then, or beyond all of them.
inline bool HasUsualDamping(const LrnArgs& args) {
  return args.beta == 0.75 && args.alpha >= 0 && args.bias >= static_cast<double>(std::numeric_limits<float>::min());
}

// base^-0.75 for results of type T.
template <class T, class C>
__device__ __forceinline__ C Damping(C base) {
  if constexpr (sizeof(C) == 8) {
    const C root = std::sqrt(base);
    return C(1) / (root * std::sqrt(root));
  } else {
    C rough;
#if defined(__CUDA_ARCH__)
    C inverse_root;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(inverse_root) : "f"(base));
    asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(rough) : "f"(inverse_root));
    rough *= inverse_root;
#else
    rough = 1 / (std::sqrt(base) * std::sqrt(std::sqrt(base)));
#endif
    if constexpr (sizeof(T) == 2) {
      return rough;
    } else {
      // A step of Newton's for base^3 * rough^4 = 1, by factors that neither vanish nor overflow.
      const C root = base * rough * rough;
      const C better = std::fma(rough * C(0.25), std::fma(-(base * root), root, C(1)), rough);
      return base < std::numeric_limits<C>::infinity() ? better : rough;
    }
  }
}

}  // namespace cudaep::kernels
