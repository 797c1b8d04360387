// QuantizedConv by warpgroups.
#include "device/warpgroup.h"
#include "kernels/conv/quantized_conv.cuh"

namespace cudaep::kernels::quantized {
namespace {

// The stages lie as boxes do: pixels, then weights. A group has 64 pixels and all channels.
template <class S>
class WarpgroupProducts {
 public:
  static_assert(S::kStepBytes == device::kBoxRowBytes && S::kWarpPixels * 4 == device::kWarpgroupRows);
  static_assert(S::kWarpChannels == S::kChannels && S::kStageBytes % device::kBoxAlignment == 0);

  static constexpr size_t kSlack = device::kBoxSlack;
  static __device__ __forceinline__ uint8_t* AlignStages(uint8_t* shared) { return device::AlignBoxes(shared); }
  __device__ __forceinline__ WarpgroupProducts(int pixel, int /*channel*/, int /*split*/)
      : first_row_(pixel / device::kWarpgroupRows * device::kWarpgroupRows) {}

  static __device__ __forceinline__ void SeeCopies() { device::WarpgroupSeesStores(); }
  __device__ __forceinline__ void Start(const uint8_t* stage, bool adds) {
    const device::BoxPart pixels = device::BoxPart::Of(stage, first_row_);
    const device::BoxPart weights = device::BoxPart::Of(stage + S::kPixels * S::kStepBytes);
    device::WarpgroupBegin();
#pragma unroll
    for (int depth = 0; depth < S::kDepths; ++depth) {
      device::WarpgroupMma<int8_t, S::kChannels>(sum_, pixels.At(depth), weights.At(depth), adds || depth != 0);
    }
    device::WarpgroupCommit();
  }
  __device__ __forceinline__ void End(const uint8_t* /*stage*/, int /*left*/) {
    __syncwarp();  // the wait is the warp's, and what was loaded meanwhile had branches
    device::WarpgroupWait<0>();
  }
  __device__ __forceinline__ void Settle() { device::WarpgroupSettle(sum_); }
  __device__ __forceinline__ device::FragmentD<int32_t> At(int /*i*/, int j) const {
    return {{sum_[4 * j], sum_[4 * j + 1], sum_[4 * j + 2], sum_[4 * j + 3]}};
  }

 private:
  int first_row_;
  int32_t sum_[S::kChannels / 2];
};

}  // namespace

Tile WarpgroupTile(QuantizedConvTile tile) {
  return tile == QuantizedConvTile::k128x128Groups ? MakeTile<Tiling<128, 128, 16, 128, 1, 3, 2>, WarpgroupProducts>()
                                                   : MakeTile<Tiling<128, 64, 16, 64, 1, 3, 3>, WarpgroupProducts>();
}

}  // namespace cudaep::kernels::quantized
