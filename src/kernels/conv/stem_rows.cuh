// Sums of the stem's kernel by tensor cores of single warps.
#pragma once

#include "device/tensor_core.h"
#include "kernels/conv/stem_image.cuh"

namespace cudaep::kernels::stem {

// A warp's channels of a row of its columns: each lane has one pack of the pixels 2 g and 2 g + 1. Weights stay in
// registers. kFinite: the image's numbers are.
template <class T, int kSteps, bool kFinite>
class Rows {
 public:
  static constexpr int kChannels = kStemWarpChannels, kPacks = 1;
  static constexpr bool kTogether = false;  // warps may leave
  static constexpr size_t kSharedBytes = 0;

  __device__ __forceinline__ Rows(const Arguments& p, int group, bool is_active, void* /*shared*/)
      : mask_(WindowMask<kFinite>(p.conv)) {
    if (!is_active) return;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const T* const from = static_cast<const T*>(p.at.packed) + (int64_t{group} * kSteps * 64 + lane) * kStemPack;
#pragma unroll
    for (int i = 0; i < 2 * kSteps; ++i) {
      const RawPack<T, kStemPack> raw = LoadRaw<kStemPack>(from + i * 32 * kStemPack);
#pragma unroll
      for (int n = 0; n < kTiles; ++n) weights_[i / 2][n].word[i % 2] = raw.word[n];
    }
  }
  __device__ __forceinline__ void SeeCopies() const {}

  // `from`: the word of the lane's first pixel and column, in the window's first row.
  template <class Finish>
  __device__ __forceinline__ void Add(const StemConv& conv, const uint32_t* from, const Finish (&finish)[kPacks]) {
#pragma unroll
    for (int i = 0; i < kStemPack; ++i) {
      sums_[i / 2].value[i % 2] = sums_[i / 2].value[2 + i % 2] = finish[0].Start(i);
    }
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
      const auto a = WindowRows<T, kSteps, kFinite>(conv, from, k, mask_);
#pragma unroll
      for (int n = 0; n < kTiles; ++n) device::Mma(sums_[n], a, weights_[k][n]);
    }
  }
  __device__ __forceinline__ float Sum(int second, int /*pack*/, int i) const {
    return sums_[i / 2].value[2 * second + i % 2];
  }

 private:
  static constexpr int kTiles = kChannels / 8;
  device::FragmentB<T> weights_[kSteps][kTiles];
  device::FragmentD<float> sums_[kTiles];
  uint32_t mask_;
};

}  // namespace cudaep::kernels::stem
