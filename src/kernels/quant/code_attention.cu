#include <limits>

#include "core/checked_math.h"
#include "device/words.h"
#include "kernels/attention/flash_products.cuh"
#include "kernels/attention/flash_work.cuh"
#include "kernels/common/trigger.cuh"
#include "kernels/quant/code_attention.cuh"
#include "kernels/quant/whole_range.cuh"

namespace cudaep::kernels {
namespace {

using Products = TensorCoreProducts<Half>;
using Scores = device::FragmentD<float>[Products::kKeys / 8];

constexpr int kWarps = kMostWarps, kThreads = kWarps * 32, kBlocksTogether = 3;
constexpr int kHead = kCodeAttentionHead, kStride = kHead + PackElems(2);
constexpr int kTiles = 2, kKeys = kTiles * Products::kKeys;  // of a block at a time
static_assert(kKeys == kCodeWarpsKeys);
constexpr int kMostKeyWarps = 2;
constexpr int RowsOfBlock(int key_warps) { return kWarps / key_warps * kWarpRows; }
constexpr float kHidden = -std::numeric_limits<float>::infinity(), kLeast = std::numeric_limits<float>::lowest();

__device__ __forceinline__ WholeRange RangeOf(const CodeAttentionStep& step) {
  return WholeRange::Of(step.least, step.most, step.factor);
}

// kKeyWarps: warps that share 16 rows, an equal part of each tile of keys for each.
template <bool kMask, bool kAligned, int kKeyWarps>
__global__ void __launch_bounds__(kThreads, kBlocksTogether)
    CodeWarpsKernel(__grid_constant__ const CodeAttention p, __grid_constant__ const CodeAttentionPointers at) {
  constexpr int kRows = RowsOfBlock(kKeyWarps), kWarpTiles = kTiles / kKeyWarps;
  Half* const q_tile = device::DynamicShared<Half>();
  Half* const k_tile = q_tile + kRows * kStride;
  Half* const v_tile = k_tile + kKeys * kStride;
  [[maybe_unused]] __shared__ float mask_tile[kKeys];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int row_warp = static_cast<int>(threadIdx.x) / 32 / kKeyWarps;
  const int key_warp = static_cast<int>(threadIdx.x) / 32 % kKeyWarps;
  const int first_key = key_warp * kWarpTiles * Products::kKeys;  // of a tile
  const WholeRange scores = RangeOf(p.scores), scaled = RangeOf(p.scaled), masked = RangeOf(p.masked);
  const WholeRange shares = RangeOf(p.shares), result = RangeOf(p.result);
  const auto row_tiles = static_cast<uint32_t>((p.queries + kRows - 1) / kRows), heads = static_cast<uint32_t>(p.heads);
  const uint32_t matrix = blockIdx.x / row_tiles;
  const int64_t first_row = int64_t{blockIdx.x % row_tiles} * kRows, head = matrix % heads, batch = matrix / heads;
  const int depth = static_cast<int>(p.head_size), keys = static_cast<int>(p.keys);
  const auto head_of = [&](const void* tensor, const AttentionStrides& strides) {
    return static_cast<const int8_t*>(tensor) + batch * strides.batch + head * strides.head;
  };
  const int8_t* const q = head_of(at.q, p.q) + first_row * p.q.row;
  const int8_t *const k = head_of(at.k, p.k), *const v = head_of(at.v, p.v);
  const int64_t warp_row = first_row + row_warp * kWarpRows;
  const bool active = warp_row < p.queries;
  device::GridDependencyWait();
  TriggerDependentsOfSmallGrid();

  const auto bring_mask = [&](int key) {
    if constexpr (!kMask) return;
    const int of = key + static_cast<int>(threadIdx.x);
    static_assert(kKeys == kThreads);
    const float number = of < keys ? MaskNumber(p, at.mask, batch * p.mask_stride + of) : 0.0f;
    mask_tile[threadIdx.x] = fmaf(number, p.mask_factor * kInverseWholeRange, masked.scaled_start);
  };
  Scores s[kWarpTiles];
  const auto each_score = [&](auto&& body) {
#pragma unroll
    for (int tile = 0; tile < kWarpTiles; ++tile) {
#pragma unroll
      for (int n = 0; n < Products::kKeys / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          body(s[tile][n].value[i], first_key + tile * Products::kKeys + n * 8 + device::MmaColumn(lane, i), i / 2);
        }
      }
    }
  };
  // The scores of a tile of keys that lies in shared memory.
  const auto score = [&](int key) {
#pragma unroll
    for (int tile = 0; tile < kWarpTiles; ++tile) {
#pragma unroll
      for (int n = 0; n < Products::kKeys / 8; ++n) s[tile][n] = {};
      Products::Scores(s[tile], q_tile + row_warp * kWarpRows * kStride, kStride,
                       k_tile + (first_key + tile * Products::kKeys) * kStride, kStride, depth);
    }
    each_score([&](float& x, int, int) { x = scores.Whole(x); });
    if (p.has_scaled != 0) each_score([&](float& x, int, int) { x = scaled.Whole(x); });
    if constexpr (kMask)
      each_score([&](float& x, int column, int) { x = masked.Whole(x, masked.scaled_factor, mask_tile[column]); });
    if (key + kKeys > keys) {
      each_score([&](float& x, int column, int) {
        if (key + column >= keys) x = kHidden;
      });
    }
  };

  const auto at_tile = [](Half* tile) {
    return [tile](int row, int piece) { return tile + row * kStride + piece * PackElems(2); };
  };
  const auto bring_keys = [&](int key) {
    CodeRows<kKeys, kThreads, kAligned> rows;
    rows.Load(k + key * p.k.row, p.k.row, keys - key, depth, p.k_zero);
    rows.Store(p.k_zero, at_tile(k_tile));
  };
  const bool one_tile = keys <= kKeys;
  {
    CodeRows<kRows, kThreads, kAligned> q_rows;
    CodeRows<kKeys, kThreads, kAligned> k_rows, v_rows;
    const auto rows = static_cast<int>(device::Min(p.queries - first_row, int64_t{kRows}));
    q_rows.Load(q, p.q.row, rows, depth, p.q_zero);
    if (keys > 0) {
      k_rows.Load(k, p.k.row, keys, depth, p.k_zero);
      if (one_tile) v_rows.Load(v, p.v.row, keys, depth, p.v_zero);
    }
    bring_mask(0);
    q_rows.Store(p.q_zero, at_tile(q_tile));
    if (keys > 0) {
      k_rows.Store(p.k_zero, at_tile(k_tile));
      if (one_tile) v_rows.Store(p.v_zero, at_tile(v_tile));
    }
  }
  __syncthreads();
  float max[2] = {kLeast, kLeast}, sum[2] = {};  // of the warp's keys, of which there may be none
#pragma unroll 1
  for (int key = 0; key < keys; key += kKeys) {
    if (key > 0) {
      __syncthreads();
      bring_keys(key);
      bring_mask(key);
      __syncthreads();
    }
    if (!active) continue;
    score(key);
    float tile_max[2] = {max[0], max[1]};
    each_score([&](float x, int, int r) { tile_max[r] = fmaxf(tile_max[r], x); });
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      tile_max[r] = flash::RowMax(tile_max[r]);
      sum[r] *= key == 0 ? 0.0f : exp2f((max[r] - tile_max[r]) * p.exponent);
      max[r] = tile_max[r];
    }
    each_score([&](float& x, int, int r) {
      const float power = exp2f((x - max[r]) * p.exponent);
      sum[r] += power;
      if (one_tile) x = power;
    });
  }
  float share[2] = {flash::RowSum(sum[0]), flash::RowSum(sum[1])};
  if constexpr (kKeyWarps == 1) {
    for (float& of_row : share) of_row = 1.0f / of_row;
  } else {
    __shared__ float row_max[kWarps][kWarpRows], row_sum[kWarps][kWarpRows];
    const int first_warp = row_warp * kKeyWarps;
    if (lane % 4 == 0) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        row_max[first_warp + key_warp][r * 8 + lane / 4] = max[r];
        row_sum[first_warp + key_warp][r * 8 + lane / 4] = share[r];
      }
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = r * 8 + lane / 4;
      const float own = max[r];
      float of_row = 0;
      for (int i = 0; i < kKeyWarps; ++i) max[r] = fmaxf(max[r], row_max[first_warp + i][row]);
      for (int i = 0; i < kKeyWarps; ++i) {
        of_row += row_sum[first_warp + i][row] * exp2f((row_max[first_warp + i][row] - max[r]) * p.exponent);
      }
      share[r] = (one_tile ? exp2f((own - max[r]) * p.exponent) : 1.0f) / of_row;
    }
  }

  device::FragmentD<float> o[kHead / 8] = {};
#pragma unroll 1
  for (int key = 0; key < keys; key += kKeys) {
    if (!one_tile) {
      __syncthreads();
      CodeRows<kKeys, kThreads, kAligned> v_rows;
      v_rows.Load(v + key * p.v.row, p.v.row, keys - key, depth, p.v_zero);
      bring_keys(key);
      bring_mask(key);
      v_rows.Store(p.v_zero, at_tile(v_tile));
      __syncthreads();
    }
    if (!active) continue;
    if (!one_tile) {
      score(key);
      each_score([&](float& x, int, int r) { x = exp2f((x - max[r]) * p.exponent); });
    }
    each_score([&](float& x, int, int r) { x = shares.Whole(x * share[r]); });
#pragma unroll
    for (int tile = 0; tile < kWarpTiles; ++tile) {
      Products::Values(o, s[tile], v_tile + (first_key + tile * Products::kKeys) * kStride, kStride,
                       static_cast<float*>(nullptr));
    }
  }
  // A warp finishes some of the columns.
  constexpr int kFinished = kHead / kKeyWarps;
  if constexpr (kKeyWarps > 1) {
    static_assert(kKeyWarps == 2);
    __syncthreads();  // nobody reads the tiles any more
    auto* const parts = reinterpret_cast<float*>(q_tile);
    const auto place = [&](int of_warp, int i) { return ((row_warp * 2 + of_warp) * kFinished / 2 + i) * 32 + lane; };
#pragma unroll
    for (int i = 0; i < kFinished / 2; ++i) {
      const float low = o[i / 4].value[i % 4], high = o[kFinished / 8 + i / 4].value[i % 4];
      parts[place(1 - key_warp, i)] = key_warp == 0 ? high : low;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kFinished / 2; ++i) {
      const float high = o[kFinished / 8 + i / 4].value[i % 4];
      float& own = o[i / 4].value[i % 4];
      own = (key_warp == 0 ? own : high) + parts[place(key_warp, i)];
    }
  }
  if (!active) return;

  const int quad = lane % 4;
  const WholeBytes bytes = WholeBytes::Of(result, p.y_zero);
  int8_t* const y = static_cast<int8_t*>(at.y) + batch * p.y.batch + head * p.y.head;
#pragma unroll
  for (int first = 0; first < kFinished; first += 32) {
    uint32_t word[4];  // two columns of the row, and of the one eight below
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const auto raised = [&](int of) { return bytes.Raised(result.Unbounded(o[first / 8 + i].value[of])); };
      word[i] = bytes.Join(raised(0), raised(1), raised(2), raised(3));
    }
    device::TransposeQuad(word, quad);
    const int column = key_warp * kFinished + first + quad * 8;
    const auto store = [&]<bool kLower>(int64_t row) {
      if (column >= depth || row >= p.queries) return;
      int8_t* const to = y + row * p.y.row + column;
      const uint32_t low = device::JoinHalves<kLower>(word[0], word[1]),
                     high = device::JoinHalves<kLower>(word[2], word[3]);
      if constexpr (kAligned) {
        StorePack(reinterpret_cast<uint32_t*>(__builtin_assume_aligned(to, 8)), Pack<uint32_t, 2>{{low, high}});
        return;
      }
      for (int b = 0; b < 4; ++b) {
        to[b] = static_cast<int8_t>(low >> (8 * b));
        to[4 + b] = static_cast<int8_t>(high >> (8 * b));
      }
    };
    store.template operator()<false>(warp_row + lane / 4);
    store.template operator()<true>(warp_row + lane / 4 + 8);
  }
}

template <int kKeyWarps>
Status Launch(const CodeAttention& p, const CodeAttentionPointers& at, bool aligned, device::Stream stream) {
  constexpr int kRows = RowsOfBlock(kKeyWarps);
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(CeilDiv(p.queries, int64_t{kRows}) * p.heads * p.batch);
  config.block.x = kThreads;
  config.shared_bytes = static_cast<size_t>(kRows + 2 * kKeys) * kStride * sizeof(Half);
  config.programmatic = true;
  const auto launch = [&](auto kernel) { return device::Launch(kernel, config, stream, p, at); };
  if (p.mask == DataType::kUndefined) {
    return launch(aligned ? CodeWarpsKernel<false, true, kKeyWarps> : CodeWarpsKernel<false, false, kKeyWarps>);
  }
  return launch(aligned ? CodeWarpsKernel<true, true, kKeyWarps> : CodeWarpsKernel<true, false, kKeyWarps>);
}

}  // namespace

Status LaunchCodeWarps(const CodeAttention& p, const CodeAttentionPointers& at, bool aligned, device::Stream stream) {
  return p.kernel == CodeAttentionKernel::kKeyWarps ? Launch<kMostKeyWarps>(p, at, aligned, stream)
                                                    : Launch<1>(p, at, aligned, stream);
}

}  // namespace cudaep::kernels
