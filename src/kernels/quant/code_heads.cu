// Attention of codes whose keys and values of a head lie in shared memory at once, by products of warpgroups: a block
// is one, with 64 rows of queries. For devices of 9.0.
//
// What a score costs is what the kernel takes, so there is no step that another makes needless:
//   - whole numbers are cut off once for the steps in front of the mask: they are monotonic, and so rounding alone
//     first and the tighter of the bounds last leave the same number
//   - the bounds of shares, of which none is below 0, matter only where a share of 1 is beyond them
//   - a share is the low half of a word as it was rounded, which 16-bit floats read as so many times 2^-24
#include <bit>
#include <limits>

#include "core/checked_math.h"
#include "device/rounded.h"
#include "device/warpgroup.h"
#include "device/words.h"
#include "kernels/attention/flash_work.cuh"
#include "kernels/common/trigger.cuh"
#include "kernels/quant/code_attention.cuh"
#include "kernels/quant/whole_range.cuh"

namespace cudaep::kernels {
namespace {

constexpr int kThreads = device::kWarpgroupThreads, kRows = device::kWarpgroupRows, kColumns = device::kBoxColumns;
constexpr int kStep = device::kMmaDepth<Half>;  // keys of a product with values, columns of one with keys
constexpr int kTogether = 4;                    // blocks of a multiprocessor
constexpr int kMostTile = kCodeHeadsKeys;
// Of a row of results in shared memory: what 8 rows of a warp store at once lies in different banks.
constexpr int kResultStride = kColumns + 16;
constexpr float kHidden = -std::numeric_limits<float>::infinity();
// Added to a share it leaves the nearest whole number in the sum's low half, which as a 16-bit float is that number
// times kShareUnit: below 2^10 these are subnormal, which tensor cores multiply exactly.
constexpr float kShares = kFloatOfBytes, kShareUnit = 0x1p-24f;
static_assert(kRows == kCodeHeadsRows && kColumns == kCodeAttentionHead);

// kWholeNumbers and the nearest whole number, ties to even, of a product. That is rounded before, as the quotient is
// which it stands for: one that comes to a tie is a tie.
__device__ __forceinline__ float WholeBits(float x, float factor) {
  return device::RoundedProduct(x, factor) + kWholeNumbers;
}
__device__ __forceinline__ float Rounded(float x, float factor) { return WholeBits(x, factor) - kWholeNumbers; }

// What the steps in front of the mask leave: whole numbers within [least, most], as (number - least) / 256.
struct CutOff {
  float factor, least, highest;  // highest: of the bounds, divided by 256

  static __device__ __forceinline__ CutOff Of(const CodeAttention& p) {
    float least = p.scores.least, most = p.scores.most;
    if (p.has_scaled != 0) {
      const auto scaled = [&](float x) {
        return fminf(fmaxf(Rounded(x, p.scaled.factor), p.scaled.least), p.scaled.most);
      };
      least = scaled(least), most = scaled(most);
    }
    const float factor = p.has_scaled != 0 ? p.scaled.factor : p.scores.factor;
    return {factor, least, (most - least) * kInverseWholeRange};
  }
  // Differences of whole numbers below 2^24, which are exact.
  __device__ __forceinline__ float operator()(float x) const {
    const float start = -(kWholeNumbers + least) * kInverseWholeRange;
    return fminf(device::FmaWithinOne(WholeBits(x, factor), kInverseWholeRange, start), highest);
  }
};

// All keys are in a tile of kTile.
template <int kTile>
__global__ void __launch_bounds__(kThreads, kTogether)
    CodeHeadsKernel(__grid_constant__ const CodeAttention p, __grid_constant__ const CodeAttentionPointers at) {
  static_assert(kTile <= kThreads);  // of which each has a number of the mask
  const int thread = static_cast<int>(threadIdx.x), lane = static_cast<int>(threadIdx.x % 32),
            warp = static_cast<int>(threadIdx.x / 32);
  const int first_row = static_cast<int>(blockIdx.x) * kRows, queries = static_cast<int>(p.queries);
  const int64_t head = blockIdx.y, batch = blockIdx.z;
  const int columns = static_cast<int>(p.head_size), keys = static_cast<int>(p.keys);
  const auto head_of = [&](auto* tensor, const AttentionStrides& strides) {
    return tensor + batch * strides.batch + head * strides.head;
  };
  const auto codes_of = [](const void* tensor) { return static_cast<const int8_t*>(tensor); };
  unsigned char* const q_box = device::AlignBoxes(device::DynamicShared<unsigned char>());
  unsigned char* const k_box = q_box + kRows * device::kBoxRowBytes;
  unsigned char* const v_box = k_box + kTile * device::kBoxRowBytes;
  float* const mask_tile = reinterpret_cast<float*>(v_box + kTile * device::kBoxRowBytes);
  const auto at_box = [](unsigned char* box) {
    return [box](int row, int piece) { return box + device::BoxPieceOffset(row, piece); };
  };
  const CutOff cut_off = CutOff::Of(p);
  const bool has_mask = p.mask != DataType::kUndefined;
  device::GridDependencyWait();
  TriggerDependentsOfOneRound(kTogether * kThreads, gridDim.x * gridDim.y * gridDim.z);

  CodeRows<kRows, kThreads, true> q_rows;
  CodeRows<kTile, kThreads, true> k_rows, v_rows;
  q_rows.Load(head_of(codes_of(at.q), p.q) + first_row * p.q.row, p.q.row, queries - first_row, columns, p.q_zero);
  k_rows.Load(head_of(codes_of(at.k), p.k), p.k.row, keys, columns, p.k_zero);
  v_rows.Load(head_of(codes_of(at.v), p.v), p.v.row, keys, columns, p.v_zero);
  const float mask = has_mask && thread < keys ? MaskNumber(p, at.mask, batch * p.mask_stride + thread) : 0.0f;
  q_rows.Store(p.q_zero, at_box(q_box));
  k_rows.Store(p.k_zero, at_box(k_box));
  const WholeRange masked = WholeRange::Of(p.masked.least, p.masked.most);
  if (thread < kTile) {
    // Of the lowest score too, above which others are.
    const float start = fmaf(cut_off.least * kInverseWholeRange, p.masked.factor, masked.scaled_start);
    mask_tile[thread] = fmaf(mask, p.mask_factor * kInverseWholeRange, start);
  }
  device::WarpgroupSeesStores();
  __syncthreads();

  float s[kTile / 2];
  const device::BoxPart of_queries = device::BoxPart::Of(q_box), of_keys = device::BoxPart::Of(k_box);
  device::WarpgroupBegin();
#pragma unroll
  for (int depth = 0; depth < kColumns / kStep; ++depth) {
    device::WarpgroupMma<Half, kTile>(s, of_queries.At(depth), of_keys.At(depth), depth != 0);
  }
  device::WarpgroupCommit();
  v_rows.Store(p.v_zero, at_box(v_box));
  device::WarpgroupSeesStores();
  device::WarpgroupWait<0>();
  device::WarpgroupSettle(s);

  // Value i is of row i / 2 % 2 and key i / 4 * 8 + i % 2 from the lane's first on.
  const auto each_score = [&](auto&& body) {
#pragma unroll
    for (int i = 0; i < kTile / 2; ++i) body(s[i], i / 2 % 2, i / 4 * 8 + i % 2);
  };
  const int first_key = device::MmaColumn(lane, 0);
  if (p.has_scaled != 0) each_score([&](float& x, int, int) { x = Rounded(x, p.scores.factor); });
  each_score([&](float& x, int, int) { x = cut_off(x); });
  float unit = p.exponent * kWholeRange;
  if (has_mask) {
    unit = p.exponent;
#pragma unroll
    for (int n = 0; n < kTile / 8; ++n) {
      const Pack<float, 2> add = LoadPack<2>(mask_tile + first_key + n * 8);
#pragma unroll
      for (int i = 4 * n; i < 4 * n + 4; ++i) s[i] = masked.Bits(s[i], p.masked.factor, add.value[i % 2]);
    }
  }
  if (keys < kTile) {
    each_score([&](float& x, int, int key) {
      if (first_key + key >= keys) x = kHidden;
    });
  }
  float max[2] = {kHidden, kHidden}, sum[2] = {};
  each_score([&](float x, int r, int) { max[r] = fmaxf(max[r], x); });
#pragma unroll
  for (float& of_row : max) of_row = flash::RowMax(of_row);
  each_score([&](float& x, int r, int) { sum[r] += x = device::FastExp2((x - max[r]) * unit); });
  float factor[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) factor[r] = p.shares.factor / flash::RowSum(sum[r]);
  each_score([&](float& x, int r, int) { x = fmaf(x, factor[r], kShares); });
  // A share of 1 that is a little beyond the bound is rounded to it, the sum's own error with it.
  if (p.shares.factor > p.shares.most + 0.25f) {
    each_score([&](float& x, int, int) { x = fminf(x, kShares + p.shares.most); });
  }
  device::FragmentA<Half> weights[kTile / kStep];
#pragma unroll
  for (int step = 0; step < kTile / kStep; ++step) {
#pragma unroll
    for (int word = 0; word < 4; ++word) {
      const int i = step * 8 + word * 2;
      weights[step].word[word] =
          device::JoinHalves<false>(std::bit_cast<uint32_t>(s[i]), std::bit_cast<uint32_t>(s[i + 1]));
    }
  }
  __syncthreads();
  float o[kColumns / 2];
  const device::BoxPart of_values = device::BoxPart::Of(v_box);
  device::WarpgroupBegin();
#pragma unroll
  for (int step = 0; step < kTile / kStep; ++step) {
    device::WarpgroupMma(o, weights[step], of_values.Behind(step * kStep * device::kBoxRowBytes), step != 0);
  }
  device::WarpgroupCommit();
  device::WarpgroupWait<0>();
  device::WarpgroupSettle(o);

  // Rows of the result take the place of the queries, which all products have read, so that whole packs are stored.
  const WholeRange result = WholeRange::Of(p.result.least, p.result.most, p.result.factor / kShareUnit);
  const WholeBytes bytes = WholeBytes::Of(result, p.y_zero);
  unsigned char* const own = q_box + warp * kWarpRows * device::kBoxRowBytes;
#pragma unroll
  for (int i = 0; i < kColumns / 2; i += 2) {
    const auto raised = [&](float sum_of_shares) { return bytes.Raised(result.Unbounded(sum_of_shares)); };
    const auto pair = static_cast<uint16_t>(bytes.Join(raised(o[i]), raised(o[i + 1])));
    unsigned char* const to = own + device::MmaRow(lane, i % 4) * kResultStride + i / 4 * 8 + first_key;
    *reinterpret_cast<uint16_t*>(__builtin_assume_aligned(to, 2)) = pair;
  }
  __syncwarp();
  int8_t* y = head_of(static_cast<int8_t*>(at.y), p.y);
  const int column = lane % kRowPacks * kPackCodes;
  constexpr int kRowsTogether = 32 / kRowPacks;
  const int row = lane / kRowPacks, there = queries - first_row - warp * kWarpRows - row;
  y += int64_t{first_row + warp * kWarpRows + row} * p.y.row + column;
#pragma unroll
  for (int r = 0; r < kWarpRows; r += kRowsTogether, y += kRowsTogether * p.y.row) {
    if (r >= there || column >= columns) continue;
    StorePack(y, LoadPack<kPackCodes>(reinterpret_cast<const int8_t*>(own + (r + row) * kResultStride + column)));
  }
}

template <int kTile>
Status Launch(const CodeAttention& p, const CodeAttentionPointers& at, device::Stream stream) {
  device::LaunchConfig config;
  config.grid = {static_cast<unsigned>(CeilDiv(p.queries, int64_t{kRows})), static_cast<unsigned>(p.heads),
                 static_cast<unsigned>(p.batch)};
  config.block.x = kThreads;
  config.shared_bytes = (kRows + 2 * kTile) * device::kBoxRowBytes + kTile * sizeof(float) + device::kBoxSlack;
  config.programmatic = true;
  return device::Launch(CodeHeadsKernel<kTile>, config, stream, p, at);
}

}  // namespace

Status LaunchCodeHeads(const CodeAttention& p, const CodeAttentionPointers& at, device::Stream stream) {
  return p.keys <= kMostTile / 2 ? Launch<kMostTile / 2>(p, at, stream) : Launch<kMostTile>(p, at, stream);
}

}  // namespace cudaep::kernels
