// Codes of int8 as pairs of 16-bit floats, for tensor cores that multiply those.
#pragma once

#include "device/pairs.h"

namespace cudaep::kernels {

// Two codes of a word, from `first` (0 or 2) on, less a zero point: whole numbers that 16-bit floats have.
__device__ __forceinline__ uint32_t PairOfCodes(uint32_t word, int first, int32_t zero) {
#if defined(__CUDA_ARCH__)
  // 1024 + (code + 128), of which the same with the zero point is taken off.
  const uint32_t raised = __byte_perm(word ^ 0x80808080u, 0x64646464u, first == 0 ? 0x4140 : 0x4342);
  const __half2 zeros = __half2half2(__int2half_rn(1024 + 128 + zero));
  const __half2 pair = __hsub2(reinterpret_cast<const __half2&>(raised), zeros);
  return reinterpret_cast<const uint32_t&>(pair);
#else
  const auto code = [&](int i) { return static_cast<float>(static_cast<int8_t>(word >> (8 * i)) - zero); };
  return device::PairOf<Half>(code(first), code(first + 1));
#endif
}

}  // namespace cudaep::kernels
