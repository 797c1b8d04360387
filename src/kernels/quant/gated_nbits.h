// Two products of one matrix with weights of few bits and the gate between them, in one launch: y[m, n] =
// activation(a * dequantised(b1)) * (a * dequantised(b2)). Neither product is written, a is read once for both, and
// both sums are of fp32 until the gate is done.
//
// Few rows of 16-bit floats with constants that are packed (matmul_nbits.h), as a decoder's step has; what does not fit
// is two products and LaunchGated (kernels/elementwise/gated.h).
#pragma once

#include "core/epilogue.h"
#include "kernels/quant/matmul_nbits.h"

namespace cudaep::kernels {

struct GatedNBits {
  MatMulNBits product;                        // either factor: sizes, and how their constants lie, are the same
  Activation activation = Activation::kSilu;  // of the first factor; without parameters
};

struct GatedNBitsPointers {
  MatMulNBitsPointers first;  // the factor that is activated; its y is the result, and none of the others
  // Of the second factor, as the first one's are.
  const void* b = nullptr;
  const void* scales = nullptr;
  const void* zero_points = nullptr;
};

// Most rows of one launch: more are not bound by reading weights.
inline constexpr int64_t kNBitsGatedRows = 16;

// Up to kNBitsGatedRows rows of 4 bits where FitsNBitsTensorCores; neither groups nor a bias.
bool FitsGatedNBits(const GatedNBits& product, const device::DeviceInfo& device);
// kInvalidArgument for what does not fit. An empty result launches nothing.
Status LaunchGatedNBits(const GatedNBits& product, const GatedNBitsPointers& at, const device::DeviceInfo& device,
                        device::Stream stream);

}  // namespace cudaep::kernels
