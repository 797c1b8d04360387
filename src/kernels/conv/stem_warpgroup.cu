// The stem's kernel by products of a warpgroup, for devices of 9.0: 64 columns, 16 of each warp, by 64 channels, whose
// weights lie in shared memory. What a warp reads of the image is multiplied by twice as many channels as by its own
// products, at twice the rate.
#include "device/warpgroup.h"
#include "kernels/conv/stem_kernel.cuh"

namespace cudaep::kernels::stem {
namespace {

static_assert(kThreads == device::kWarpgroupThreads && kWarps * kTileColumns == device::kWarpgroupRows);
static_assert(kStemWarpgroupChannels * 2 == device::kBoxRowBytes);

template <class T, int kSteps, bool kFinite>
class WarpgroupRows {
 public:
  static constexpr int kChannels = kStemWarpgroupChannels, kPacks = kChannels / 4 / kStemPack;
  static constexpr bool kTogether = true;
  static constexpr int kDepth = device::kMmaDepth<T>;  // of a step: a row of weights for each column of two window rows
  static constexpr size_t kWeightBytes = size_t{kSteps} * kDepth * device::kBoxRowBytes;
  static constexpr size_t kSharedBytes = kWeightBytes + device::kBoxSlack;

  __device__ __forceinline__ WarpgroupRows(const Arguments& p, int group, bool /*is_active*/, unsigned char* shared)
      : weights_(device::AlignBoxes(shared)), mask_(WindowMask<kFinite>(p.conv)) {
    const auto* const from = static_cast<const unsigned char*>(p.at.packed) + int64_t{group} * kWeightBytes;
    constexpr int kPieces = static_cast<int>(kWeightBytes / kPackBytes);
#pragma unroll
    for (int i = 0; i < kPieces / kThreads; ++i) {
      const int at = (i * kThreads + static_cast<int>(threadIdx.x)) * kPackBytes;
      device::CopyAsync<kPackBytes>(weights_ + at, from + at);
    }
    static_assert(kPieces % kThreads == 0);
  }
  __device__ __forceinline__ void SeeCopies() const { device::WarpgroupSeesStores(); }

  template <class Finish>
  __device__ __forceinline__ void Add(const StemConv& conv, const uint32_t* from, const Finish (&finish)[kPacks]) {
#pragma unroll
    for (int pack = 0; pack < kPacks; ++pack) {
#pragma unroll
      for (int i = 0; i < kStemPack; ++i) {
        sums_[Place(0, pack, i)] = sums_[Place(1, pack, i)] = finish[pack].Start(i);
      }
    }
    __syncwarp();  // lanes come from stores that not all of them made
    device::FragmentA<T> a[kSteps];
#pragma unroll
    for (int k = 0; k < kSteps; ++k) a[k] = WindowRows<T, kSteps, kFinite>(conv, from, k, mask_);
    device::WarpgroupBegin();
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
      device::WarpgroupMma(sums_, a[k], device::BoxPart::Of(weights_, k * kDepth), true);
    }
    device::WarpgroupCommit();
    device::WarpgroupWait<0>();
    device::WarpgroupSettle(sums_);
  }
  __device__ __forceinline__ float Sum(int second, int pack, int i) const { return sums_[Place(second, pack, i)]; }

 private:
  // The lane's channels are neighbours: of each eight columns of D it has two of them.
  static constexpr __host__ __device__ int Place(int second, int pack, int i) {
    const int channel = pack * kStemPack + i;
    return channel / 2 * 4 + second * 2 + channel % 2;
  }

  unsigned char* weights_;
  float sums_[kChannels / 2];
  uint32_t mask_;
};

}  // namespace

Status LaunchWarpgroup(const Arguments& p, const device::LaunchConfig& config, device::Stream stream) {
  return LaunchProducts<WarpgroupRows>(p, config, stream);
}

}  // namespace cudaep::kernels::stem
