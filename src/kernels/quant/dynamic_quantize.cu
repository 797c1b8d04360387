#include <algorithm>

#include "core/checked_math.h"
#include "device/launch.h"
#include "kernels/pack.h"
#include "kernels/quant/dynamic_quantize.h"
#include "kernels/quant/linear.h"

namespace cudaep::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kOneBlockElems = 8192;  // up to here a single block does everything
constexpr int64_t kBlockElems = 32768;    // at least so many for each of several blocks
constexpr int64_t kMostBlocks = 512;

int64_t BlocksOf(int64_t elems) {
  return elems <= kOneBlockElems ? 1 : std::min(CeilDiv(elems, kBlockElems), kMostBlocks);
}

struct Extremes {
  float low = 0, high = 0;  // 0 always counts
  __device__ __forceinline__ void Add(float least, float most) {
    low = fminf(low, least);
    high = fmaxf(high, most);
  }
};

// Of all threads of the block, in all of them.
__device__ __forceinline__ Extremes OfBlock(Extremes mine) {
  __shared__ float low[kThreads / 32], high[kThreads / 32];
  for (int offset = 16; offset > 0; offset /= 2) {
    mine.Add(__shfl_xor_sync(0xffffffffu, mine.low, offset), __shfl_xor_sync(0xffffffffu, mine.high, offset));
  }
  if (threadIdx.x % 32 == 0) low[threadIdx.x / 32] = mine.low, high[threadIdx.x / 32] = mine.high;
  __syncthreads();
  for (int warp = 0; warp < kThreads / 32; ++warp) mine.Add(low[warp], high[warp]);
  return mine;
}

struct Quantization {
  float scale, zero;

  __device__ __forceinline__ explicit Quantization(const Extremes& of) {
    scale = of.high == of.low ? 1.0f : (of.high - of.low) / 255.0f;
    zero = rintf(fminf(fmaxf(0.0f - of.low / scale, 0.0f), 255.0f));
  }
  __device__ __forceinline__ uint8_t Code(float x) const {
    return static_cast<uint8_t>(fminf(fmaxf(rintf(x / scale) + zero, 0.0f), 255.0f));
  }
};

__device__ __forceinline__ void Publish(const DynamicQuantize& p, const Quantization& found) {
  if (threadIdx.x != 0) return;
  *p.scale = found.scale;
  *p.zero_point = static_cast<uint8_t>(found.zero);
}

// Each block's extremes; a single block goes on to quantize.
__global__ void __launch_bounds__(kThreads) ExtremesKernel(__grid_constant__ const DynamicQuantize p, int64_t packs) {
  device::GridDependencyWait();
  Extremes mine;
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int64_t threads = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = thread; i < packs; i += threads) {
    const Pack<float, 4> pack = LoadPack<4>(p.x + i * 4);
#pragma unroll
    for (int k = 0; k < 4; ++k) mine.Add(pack.value[k], pack.value[k]);
  }
  for (int64_t i = packs * 4 + thread; i < p.elems; i += threads) mine.Add(p.x[i], p.x[i]);
  mine = OfBlock(mine);
  if (gridDim.x > 1) {
    if (threadIdx.x == 0) p.extremes[2 * blockIdx.x] = mine.low, p.extremes[2 * blockIdx.x + 1] = mine.high;
    return;
  }
  const Quantization found(mine);
  for (int64_t i = threadIdx.x; i < p.elems && p.y != nullptr; i += kThreads) p.y[i] = found.Code(p.x[i]);
  Publish(p, found);
}

__global__ void __launch_bounds__(kThreads) JoinExtremes(__grid_constant__ const DynamicQuantize p, int blocks) {
  device::GridDependencyWait();
  Extremes mine;
  for (int i = static_cast<int>(threadIdx.x); i < blocks; i += kThreads) {
    mine.Add(p.extremes[2 * i], p.extremes[2 * i + 1]);
  }
  Publish(p, Quantization(OfBlock(mine)));
}

}  // namespace

size_t DynamicQuantizeScratch(int64_t elems) { return static_cast<size_t>(BlocksOf(elems)) * 2 * sizeof(float); }

Status LaunchDynamicQuantize(const DynamicQuantize& args, device::Stream stream) {
  const int64_t blocks = BlocksOf(args.elems);
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(blocks);
  config.block.x = kThreads;
  config.programmatic = true;
  const int64_t packs = IsAligned(args.x, kPackBytes) ? args.elems / 4 : 0;
  CUDAEP_RETURN_IF_ERROR(device::Launch(ExtremesKernel, config, stream, args, packs));
  if (blocks == 1) return Status::Ok();
  config.grid.x = 1;
  CUDAEP_RETURN_IF_ERROR(device::Launch(JoinExtremes, config, stream, args, static_cast<int>(blocks)));
  if (args.y == nullptr) return Status::Ok();
  return LaunchQuantize({.x = args.x,
                         .scale = args.scale,
                         .zero_point = args.zero_point,
                         .y = args.y,
                         .y_type = DataType::kUint8,
                         .elems = args.elems},
                        stream);
}

}  // namespace cudaep::kernels
