#include <algorithm>

#include "core/checked_math.h"
#include "core/data_type_traits.h"
#include "kernels/attention/linear_tokens.cuh"
#include "kernels/attention/relative_bias.h"
#include "kernels/pack.h"

namespace cudaep::kernels {
namespace {

constexpr unsigned kThreads = 256;
constexpr int kTileQueries = 32, kTileKeys = 1024;  // what a block has of a head: so many distances meet in it
constexpr unsigned kWarpsOfGate = 4;

__device__ __forceinline__ int64_t BucketOf(const RelativeBias& p, int64_t distance) {
  const bool is_behind = distance > 0;
  if (is_behind && !p.bidirectional) return 0;
  const int64_t first = is_behind ? p.buckets : 0, exact = p.buckets / 2;
  if (!is_behind) distance = -distance;
  if (distance < exact) return first + distance;
  const float grown = std::log(static_cast<float>(distance) / static_cast<float>(exact)) / p.range;
  const auto beyond = static_cast<int64_t>(grown * static_cast<float>(p.buckets - exact));
  return first + device::Min(p.buckets - 1, exact + beyond);
}

// The grid is tiles of queries and keys by heads.
template <class T, int kPack>
__global__ void __launch_bounds__(kThreads)
    RelativeBiasKernel(const T* table, T* out, __grid_constant__ const RelativeBias p) {
  __shared__ T of_distance[kTileQueries + kTileKeys];
  device::GridDependencyWait();
  const int64_t key_tiles = (p.keys + kTileKeys - 1) / kTileKeys;
  const int64_t query = blockIdx.x / key_tiles * kTileQueries, key = blockIdx.x % key_tiles * kTileKeys;
  const int queries = static_cast<int>(device::Min(p.queries - query, int64_t{kTileQueries}));
  const int keys = static_cast<int>(device::Min(p.keys - key, int64_t{kTileKeys}));
  const int64_t all = p.bidirectional ? 2 * p.buckets : p.buckets;
  // The first is the distance of the tile's first key from its last query.
  for (int i = threadIdx.x; i < queries + keys - 1; i += kThreads) {
    of_distance[i] = table[blockIdx.y * all + BucketOf(p, key - (query + queries - 1) + i)];
  }
  __syncthreads();
  out += (blockIdx.y * p.queries + query) * p.keys + key;
  const int packs = keys / kPack;  // kPack divides p.keys and kTileKeys
  for (int i = threadIdx.x; i < queries * packs; i += kThreads) {
    const int row = i / packs, column = i % packs * kPack;
    Pack<T, kPack> pack;
#pragma unroll
    for (int j = 0; j < kPack; ++j) pack.value[j] = of_distance[queries - 1 - row + column + j];
    StorePack(out + row * p.keys + column, pack);
  }
}

// A warp has a row: its gate, then what the gate multiplies.
template <class T, int kPack>
__global__ void __launch_bounds__(kWarpsOfGate * 32) GatedBiasKernel(__grid_constant__ const GatedBias p) {
  device::GridDependencyWait();
  const auto at = [](const void* values, int64_t index) { return Load(static_cast<const T*>(values)[index]); };
  const auto sum = [](float a, float b) { return a + b; };
  const int lane = threadIdx.x % 32, half = p.columns / 2;
  const int64_t slots = p.batch * p.steps, rows = slots * p.heads;
  for (int64_t i = int64_t{blockIdx.x} * kWarpsOfGate + threadIdx.x / 32; i < rows;
       i += int64_t{gridDim.x} * kWarpsOfGate) {
    const int64_t slot = i / p.heads, head = i % p.heads;
    const int64_t position = p.token_offset != nullptr ? p.token_offset[slot] : slot;
    if (position < 0 || position >= slots) continue;
    float u = 0, r = 0;
    for (int64_t e = lane; e < p.size; e += 32) {
      const float query = slot < p.tokens ? at(p.query, i * p.size + e) : 0;
      const float x = query + at(p.query_bias, head * p.size + e);
      float of_u = 0, of_r = 0;
      for (int d = 0; d < half; ++d) {
        of_u += at(p.weight, e * p.columns + d);
        of_r += at(p.weight, e * p.columns + half + d);
      }
      u += x * of_u, r += x * of_r;
    }
    for (int d = lane; d < half; d += 32) u += at(p.bias, d), r += at(p.bias, half + d);
    u = device::WarpReduce(u, sum), r = device::WarpReduce(r, sum);
    const float gate = Sigmoid(u) * (Sigmoid(r) * at(p.eco_a, head) - 1) + 2;
    const int64_t step = position % p.steps;
    const T* const in = static_cast<const T*>(p.rel_pos) + (head * p.steps + step) * p.steps;
    T* const out = static_cast<T*>(p.out) + ((position / p.steps * p.heads + head) * p.steps + step) * p.steps;
    for (int64_t k = lane * kPack; k < p.steps; k += 32 * kPack) {
      Pack<T, kPack> pack = LoadPack<kPack>(in + k);
#pragma unroll
      for (T& value : pack.value) value = Store<T>(gate * Load(value));
      StorePack(out + k, pack);
    }
  }
}

// f.template operator()<T, kPack>() with packs where each row begins with one.
template <class F>
Status VisitPacks(DataType type, int64_t columns, bool is_aligned, const F& f) {
  return VisitType<kRelativeBiasTypes>(type, NotSupported("bias of ", DataTypeName(type)), [&]<class T>() {
    constexpr int kPack = PackElems(sizeof(T));
    return is_aligned && columns % kPack == 0 ? f.template operator()<T, kPack>() : f.template operator()<T, 1>();
  });
}

}  // namespace

Status LaunchRelativeBias(const RelativeBias& p, const void* table, void* out, device::Stream stream) {
  if (p.heads == 0 || p.queries == 0 || p.keys == 0) return Status::Ok();
  const int64_t tiles = CeilDiv<int64_t>(p.queries, kTileQueries) * CeilDiv<int64_t>(p.keys, kTileKeys);
  if (p.heads > 65535 || tiles > INT32_MAX) {
    return NotSupported("relative positions of ", p.heads, " heads, ", p.queries, " queries and ", p.keys, " keys");
  }
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(tiles);
  config.grid.y = static_cast<unsigned>(p.heads);
  config.block.x = kThreads;
  config.programmatic = true;
  return VisitPacks(p.type, p.keys, IsAligned(out, kPackBytes), [&]<class T, int kPack>() {
    return device::Launch(RelativeBiasKernel<T, kPack>, config, stream, static_cast<const T*>(table),
                          static_cast<T*>(out), p);
  });
}

Status LaunchGatedBias(const GatedBias& p, device::Stream stream) {
  const int64_t rows = p.batch * p.steps * p.heads;
  if (rows == 0) return Status::Ok();
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(std::min<int64_t>(CeilDiv<int64_t>(rows, kWarpsOfGate), 1 << 20));
  config.block.x = kWarpsOfGate * 32;
  config.programmatic = true;
  const bool is_aligned = IsAligned(p.rel_pos, kPackBytes) && IsAligned(p.out, kPackBytes);
  return VisitPacks(p.type, p.steps, is_aligned,
                    [&]<class T, int kPack>() { return device::Launch(GatedBiasKernel<T, kPack>, config, stream, p); });
}

}  // namespace cudaep::kernels
