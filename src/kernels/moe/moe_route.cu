// Who goes to which expert: top-k of a row by a warp, then one block that counts, adds up and places.
#include <algorithm>
#include <cmath>

#include "core/checked_math.h"
#include "core/data_type_traits.h"
#include "device/intrinsics.h"
#include "device/launch.h"
#include "kernels/moe/moe.h"

namespace cudaep::kernels {
namespace {

constexpr int kWarp = 32;
constexpr int kRouteWarps = 8;
constexpr int kOrderThreads = 1024;
constexpr int64_t kOneBlockTokens = 256;  // routed by the block that makes the order
constexpr float kTwiceJitter = 0.02f;
constexpr uint32_t kMostExpert = 0x7fffffffu;

struct RouteArguments {
  MoeRoutingPointers at;
  int64_t tokens, experts, entries, tiles;
  int top_k, tile_rows;
  int32_t normalize, sparse_mixer;  // whole words: padding would hold whatever the stack did
};

// A score as a number that sorts like it, in front of the expert, lower ones first: no two are equal, none has all bits
// set, whatever NaN the score is, and none is 0.
__device__ __forceinline__ uint64_t KeyOf(float score, int64_t expert) {
  const auto bits = std::bit_cast<uint32_t>(score + 0.0f);  // -0 is 0
  const uint32_t sorted = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  return static_cast<uint64_t>(sorted) << 32 | (kMostExpert - static_cast<uint32_t>(expert));
}
__device__ __forceinline__ int64_t ExpertOf(uint64_t key) { return kMostExpert - static_cast<uint32_t>(key); }

__device__ __forceinline__ float Add(float a, float b) { return a + b; }

// The sum of a token's exponentials below its largest score; with kMixer of those near `top`, of experts not above it.
template <class T>
__device__ __forceinline__ float SumOfExponentials(const T* scores, int64_t experts, float top, uint64_t top_key,
                                                   bool mixer) {
  float sum = 0;
  for (int64_t e = static_cast<int64_t>(threadIdx.x); e < experts; e += kWarp) {
    const float score = Load(scores[e]);
    if (mixer && (KeyOf(score, e) > top_key || (top - score) / device::Max(std::fabs(score), top) > kTwiceJitter)) {
      continue;
    }
    sum += std::exp(score - top);
  }
  return device::WarpReduce(sum, Add);
}

template <class T>
__device__ __forceinline__ void RouteToken(const RouteArguments& p, int64_t token) {
  const int64_t lane = static_cast<int64_t>(threadIdx.x);
  const T* const scores = static_cast<const T*>(p.at.scores) + token * p.experts;
  uint64_t last = ~uint64_t{0};
  float top = 0, all = 1, chosen = 0;
  for (int rank = 0; rank < p.top_k; ++rank) {
    uint64_t best = 0;
    for (int64_t e = lane; e < p.experts; e += kWarp) {
      const uint64_t key = KeyOf(Load(scores[e]), e);
      if (key < last && key > best) best = key;
    }
    best = device::WarpReduce(best, [](uint64_t a, uint64_t b) { return device::Max(a, b); });
    const int64_t expert = ExpertOf(best);
    last = best;
    const float score = Load(scores[expert]);
    if (rank == 0 || p.sparse_mixer) {
      top = score;
      all = SumOfExponentials(scores, p.experts, top, best, p.sparse_mixer);
    }
    float weight = std::exp(score - top) / all;
    if (p.at.weights != nullptr) {
      weight = Load(static_cast<const T*>(p.at.weights)[token * p.experts + expert]);
    }
    chosen += weight;
    if (lane == 0) {
      p.at.expert[token * p.top_k + rank] = static_cast<int32_t>(expert);
      p.at.weight[token * p.top_k + rank] = weight;
    }
  }
  if (lane != 0) return;
  for (int rank = 0; rank < p.top_k; ++rank) {
    float& weight = p.at.weight[token * p.top_k + rank];
    const float value = p.normalize ? weight / chosen : weight;
    weight = std::fabs(value) <= 3.4028235e38f ? value : 0.0f;
  }
}

// By all threads of a block of kOrderThreads.
__device__ __forceinline__ void MakeOrder(const RouteArguments& p) {
  __shared__ int32_t count[kMoeMostExperts];  // of an expert; then where its next entry goes
  const int thread = static_cast<int>(threadIdx.y) * kWarp + static_cast<int>(threadIdx.x);
  const auto experts = static_cast<int>(p.experts);
  for (int e = thread; e < experts; e += kOrderThreads) count[e] = 0;
  __syncthreads();
  for (int64_t i = thread; i < p.entries; i += kOrderThreads) atomicAdd(&count[p.at.expert[i]], 1);
  __syncthreads();
  if (threadIdx.y == 0) {
    const int lane = thread;
    int32_t entries = 0, tiles = 0;
    for (int begin = 0; begin < experts; begin += kWarp) {
      const int e = begin + lane;
      const int32_t own = e < experts ? count[e] : 0, own_tiles = (own + p.tile_rows - 1) / p.tile_rows;
      int32_t to_here = own, tiles_to_here = own_tiles;
      for (int step = 1; step < kWarp; step *= 2) {
        const int32_t before = __shfl_up_sync(device::kFullWarp, to_here, step);
        const int32_t tiles_before = __shfl_up_sync(device::kFullWarp, tiles_to_here, step);
        if (lane >= step) to_here += before, tiles_to_here += tiles_before;
      }
      const int32_t first = entries + to_here - own;
      MoeTile* const list = p.at.tiles + tiles + tiles_to_here - own_tiles;
      for (int32_t i = 0; i < own_tiles; ++i) {
        const int32_t done = i * p.tile_rows;
        list[i] = {e, device::Min(p.tile_rows, own - done), first + done, 0};
      }
      if (e < experts) count[e] = first;
      entries += __shfl_sync(device::kFullWarp, to_here, kWarp - 1);
      tiles += __shfl_sync(device::kFullWarp, tiles_to_here, kWarp - 1);
    }
    for (int64_t i = tiles + lane; i < p.tiles; i += kWarp) p.at.tiles[i] = {0, 0, 0, 0};
  }
  __syncthreads();
  for (int64_t i = thread; i < p.entries; i += kOrderThreads) {
    p.at.order[atomicAdd(&count[p.at.expert[i]], 1)] = static_cast<int32_t>(i);
  }
}

template <class T>
__global__ void __launch_bounds__(kWarp* kRouteWarps) RouteKernel(__grid_constant__ const RouteArguments p) {
  device::GridDependencyWait();
  const int64_t token = static_cast<int64_t>(blockIdx.x) * kRouteWarps + threadIdx.y;
  if (token < p.tokens) RouteToken<T>(p, token);
}

// `routed`: the order is all that is left to do.
template <class T>
__global__ void __launch_bounds__(kOrderThreads) OrderKernel(__grid_constant__ const RouteArguments p, bool routed) {
  device::GridDependencyWait();
  if (!routed) {
    for (int64_t token = threadIdx.y; token < p.tokens; token += kOrderThreads / kWarp) RouteToken<T>(p, token);
    __syncthreads();
  }
  MakeOrder(p);
}

template <class T>
Status LaunchAs(const RouteArguments& p, device::Stream stream) {
  const bool orders = p.tile_rows > 0, one_block = orders && p.tokens <= kOneBlockTokens;
  device::LaunchConfig config;
  config.programmatic = true;
  if (!one_block) {
    config.grid.x = static_cast<unsigned>(CeilDiv<int64_t>(p.tokens, kRouteWarps));
    config.block = {kWarp, kRouteWarps};
    CUDAEP_RETURN_IF_ERROR(device::Launch(RouteKernel<T>, config, stream, p));
  }
  if (!orders) return Status::Ok();
  config.grid.x = 1;
  config.block = {kWarp, kOrderThreads / kWarp};
  return device::Launch(OrderKernel<T>, config, stream, p, !one_block);
}

}  // namespace

int64_t MoeRouting::tiles() const { return tile_rows == 0 ? 0 : entries() / tile_rows + std::min(experts, entries()); }

Status LaunchMoeRouting(const MoeRouting& routing, const MoeRoutingPointers& at, device::Stream stream) {
  if (routing.entries() == 0) return Status::Ok();
  if (routing.experts > kMoeMostExperts || routing.top_k > routing.experts || !FitsInt32(routing.entries())) {
    return NotSupported(routing.tokens, " tokens for ", routing.top_k, " of ", routing.experts, " experts each");
  }
  const RouteArguments p{.at = at,
                         .tokens = routing.tokens,
                         .experts = routing.experts,
                         .entries = routing.entries(),
                         .tiles = routing.tiles(),
                         .top_k = routing.top_k,
                         .tile_rows = routing.tile_rows,
                         .normalize = routing.normalize,
                         .sparse_mixer = routing.sparse_mixer};
  return VisitType<kFloatTypesNoDouble>(routing.type, NotSupported("experts of ", DataTypeName(routing.type)),
                                        [&]<class T>() { return LaunchAs<T>(p, stream); });
}

}  // namespace cudaep::kernels
