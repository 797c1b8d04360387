// Adds up what a token's experts made.
#include <algorithm>

#include "core/checked_math.h"
#include "core/data_type_traits.h"
#include "device/intrinsics.h"
#include "device/launch.h"
#include "kernels/moe/moe.h"
#include "kernels/pack.h"

namespace cudaep::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostBlocks = int64_t{1} << 20;

template <class T, int kElems>
__global__ void __launch_bounds__(kThreads)
    MoeSumKernel(const T* x, const float* weight, T* y, int64_t packs, int64_t row_packs, int top_k) {
  device::GridDependencyWait();
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < packs; i += step) {
    const int64_t token = i / row_packs, place = i % row_packs;
    float sums[kElems] = {};
    for (int64_t entry = token * top_k; entry < (token + 1) * top_k; ++entry) {
      const Pack<T, kElems> pack = LoadPack<kElems>(x + (entry * row_packs + place) * kElems);
      const float w = weight[entry];
#pragma unroll
      for (int j = 0; j < kElems; ++j) sums[j] += w * Load(pack.value[j]);
    }
    Pack<T, kElems> result;
#pragma unroll
    for (int j = 0; j < kElems; ++j) result.value[j] = Store<T>(sums[j]);
    StorePack(y + i * kElems, result);
  }
}

template <class T, int kElems>
Status LaunchPacks(const MoeProduct& product, const void* x, const float* entry_weight, void* y,
                   device::Stream stream) {
  const int64_t row_packs = product.n / kElems, packs = product.tokens * row_packs;
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(std::min(CeilDiv<int64_t>(packs, kThreads), kMostBlocks));
  config.block.x = kThreads;
  config.programmatic = true;
  return device::Launch(MoeSumKernel<T, kElems>, config, stream, static_cast<const T*>(x), entry_weight,
                        static_cast<T*>(y), packs, row_packs, product.top_k);
}

}  // namespace

Status LaunchMoeSum(const MoeProduct& product, const void* x, const float* entry_weight, void* y,
                    device::Stream stream) {
  if (product.tokens == 0 || product.n == 0) return Status::Ok();
  return VisitType<kFloatTypesNoDouble>(
      product.type, NotSupported("experts of ", DataTypeName(product.type)), [&]<class T>() {
        constexpr int kElems = PackElems(sizeof(T));
        const bool packs = product.n % kElems == 0 && IsAligned(x, kPackBytes) && IsAligned(y, kPackBytes);
        return packs ? LaunchPacks<T, kElems>(product, x, entry_weight, y, stream)
                     : LaunchPacks<T, 1>(product, x, entry_weight, y, stream);
      });
}

}  // namespace cudaep::kernels
