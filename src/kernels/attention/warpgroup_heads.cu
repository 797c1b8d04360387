// Attention whose keys and values of a head lie in shared memory at once, up to 256 of them, by products of warpgroups:
// a block is one, with 64 rows of queries. Scores and weights stay in registers; tiles of 128 keys follow each other,
// the largest score so far taken off the exponents (online softmax). For devices of 9.0.
//
// Where nothing is added to any of a block's scores they stay as they come, and the exponent's multiplication takes the
// scale in. A bias for each score lies beside the keys, in boxes like theirs.
#include "core/checked_math.h"
#include "device/warpgroup.h"
#include "kernels/attention/flash_products.cuh"
#include "kernels/attention/flash_work.cuh"
#include "kernels/common/trigger.cuh"

namespace cudaep::kernels {
namespace {

constexpr int kThreads = device::kWarpgroupThreads, kRows = device::kWarpgroupRows;
constexpr int kColumns = kWarpgroupHeadsHead, kPiece = PackElems(2), kPieces = kColumns / kPiece;
constexpr int kBoxKeys = device::kBoxColumns;   // of a bias for each score
constexpr int kStep = device::kMmaDepth<Half>;  // keys of a product with values, columns of one with keys
constexpr float kLog2E = 1.4426950408889634f;
// Up to here a maximum times the scale may be rounded before it is taken off: that makes less of a difference between
// tiles than the rounding of a 16-bit result (as of FoldedExp, kernels/softmax/softmax_math.cuh).
constexpr float kMostFolded = 1 << 10;
static_assert(kColumns == device::kBoxColumns);

// Blocks that rehearse at most. On an H200 12 of 64 keys took 0.9 us less, 24 of 128 keys 0.3, 48 of 256 keys 0.5 more.
constexpr int64_t kMostRehearsing = 32;
// Blocks of a multiprocessor, with so many tiles of keys.
constexpr int Together(int tiles, bool by_score) { return (tiles == 1 ? 4 : 3) - (by_score ? 1 : 0); }

// The kTiles tiles of kTile keys, to whose scores something is added by key or, kByScore, a bias. `rehearses`: once of
// nothing before earlier work is done, as a kernel of a few us waits for its instructions as long as for memory.
template <class T, int kTile, int kTiles, bool kByScore>
__global__ void __launch_bounds__(kThreads, Together(kTiles, kByScore))
    WarpgroupHeadsKernel(__grid_constant__ const FlashArguments p, bool rehearses) {
  constexpr float kHidden = -std::numeric_limits<float>::infinity();
  constexpr int kKeys = kTile * kTiles, kShare = (kKeys + kThreads - 1) / kThreads;
  const AttentionProblem& problem = p.problem;
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
  const int first_row = static_cast<int>(blockIdx.x) * kRows, head = static_cast<int>(blockIdx.y);
  const int64_t batch = blockIdx.z, kv_head = p.group == 1 ? head : head / p.group;
  unsigned char* const q_box = device::AlignBoxes(device::DynamicShared<unsigned char>());
  unsigned char* const k_box = q_box + kRows * device::kBoxRowBytes;
  unsigned char* const v_box = k_box + kKeys * device::kBoxRowBytes;
  unsigned char* const added = v_box + kKeys * device::kBoxRowBytes;  // fp32 by key, or boxes of 64 keys
  float* const added_tile = reinterpret_cast<float*>(added);
  const int row = thread / kPieces, piece = thread % kPieces;
  // `elems`: of the thread's piece of each row.
  const auto load = [&](unsigned char* box, int rows, int there, int elems, const void* from,
                        const AttentionStrides& strides, int64_t of_head, int first) {
    constexpr int kTogether = kThreads / kPieces;
    const T* next = static_cast<const T*>(from) + batch * strides.batch + of_head * strides.head +
                    (first + row) * strides.row + piece * kPiece;
    unsigned char* const to = box + device::BoxPieceOffset(row, piece);
#pragma unroll
    for (int r = 0; r < rows; r += kTogether, next += kTogether * strides.row) {
      const int bytes = r + row < there ? elems * static_cast<int>(sizeof(T)) : 0;
      device::CopyAsync<kPackBytes>(to + r * device::kBoxRowBytes, next, bytes);
    }
  };
  const auto whole = [&](int64_t columns) { return piece * kPiece < columns ? kPiece : 0; };
#pragma unroll 1
  for (bool is_real = !rehearses;; is_real = true) {
    if (is_real) {
      device::GridDependencyWait();
      TriggerDependentsOfOneRound(Together(kTiles, kByScore) * kThreads, gridDim.x * gridDim.y * gridDim.z);
    }
    const int queries = is_real ? static_cast<int>(problem.queries) : 0;
    const int keys = is_real ? static_cast<int>(problem.keys) : 0;
    const int biased = kByScore ? device::Min(keys, static_cast<int>(problem.bias_strides.keys)) : keys;
    load(q_box, kRows, queries - first_row, whole(problem.head_size), p.at.q, problem.q, head, first_row);
    load(k_box, kKeys, keys, whole(problem.head_size), p.at.k, problem.k, kv_head, 0);
    if constexpr (kByScore) {
      const ScoreStrides& strides = problem.bias_strides;
      const int64_t entry =
          strides.batches == 0 ? batch : batch - flash::Quotient(batch, strides.batches) * strides.batches;
      const T* const bias = static_cast<const T*>(p.at.bias) + (entry - batch) * strides.batch;
#pragma unroll
      for (int key = 0; key < kKeys; key += kBoxKeys) {
        const int left = device::Min(device::Max(biased - key - piece * kPiece, 0), kPiece);
        load(added + key / kBoxKeys * kRows * device::kBoxRowBytes, kRows, queries - first_row, left, bias + key,
             {strides.batch, strides.head, strides.query}, head, first_row);
      }
    }
    device::CommitCopies();
    load(v_box, kKeys, keys, whole(problem.v_head_size), p.at.v, problem.v, kv_head, 0);
    device::CommitCopies();
    const auto scale = static_cast<float>(problem.scale);
    bool adds = kByScore || !(scale > 0);
    if (!kByScore && is_real && (adds || p.added != FlashAdded::kNothing || keys < kKeys)) {
      const flash::Added<T, float> added_to(p, {.batch = batch, .begin = 0, .end = keys}, {true, head, 0});
#pragma unroll
      for (int share = 0; share < kShare; ++share) {
        const int key = share * kThreads + thread;
        if (key >= kKeys) break;
        const float to_score = key < keys ? added_to(key) : kHidden;
        added_tile[key] = to_score;
        adds |= to_score != 0;
      }
    }
    device::WaitForCopies<1>();
    device::WarpgroupSeesStores();
    adds = __syncthreads_or(adds ? 1 : 0) != 0;

    float max[2] = {kHidden, kHidden}, sum[2] = {};
    float o[kColumns / 2];
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      float s[kTile / 2];
      device::WarpgroupBegin();
#pragma unroll
      for (int depth = 0; depth < kColumns / kStep; ++depth) {
        device::WarpgroupMma<T, kTile>(s, device::BoxPart::Of(q_box).At(depth),
                                       device::BoxPart::Of(k_box, tile * kTile).At(depth), depth != 0);
      }
      device::WarpgroupCommit();
      device::WarpgroupWait<0>();
      device::WarpgroupSettle(s);

      // Value i is of row i / 2 % 2 and key i / 4 * 8 + i % 2 from the lane's first on.
      const int first_key = tile * kTile + lane % 4 * 2;
      if constexpr (kByScore) {
#pragma unroll
        for (int i = 0; i < kTile / 2; i += 2) {
          const int key = tile * kTile + i / 4 * 8, from = warp * kWarpRows + lane / 4 + i / 2 % 2 * 8;
          const unsigned char* const box = added + key / kBoxKeys * kRows * device::kBoxRowBytes;
          const T* const pair = reinterpret_cast<const T*>(box + device::BoxPieceOffset(from, key % kBoxKeys / 8));
          const Pack<T, 2> add = LoadPack<2>(pair + lane % 4 * 2);
          s[i] = fmaf(s[i], scale, Load(add.value[0]));
          s[i + 1] = fmaf(s[i + 1], scale, Load(add.value[1]));
        }
        if (biased < kKeys) {
#pragma unroll
          for (int i = 0; i < kTile / 2; ++i) {
            if (first_key + i / 4 * 8 + i % 2 >= biased) s[i] = kHidden;
          }
        }
      } else if (adds) {
#pragma unroll
        for (int n = 0; n < kTile / 8; ++n) {
          const Pack<float, 2> add = LoadPack<2>(added_tile + first_key + n * 8);
#pragma unroll
          for (int i = 4 * n; i < 4 * n + 4; ++i) s[i] = fmaf(s[i], scale, add.value[i % 2]);
        }
      }
      if (p.windowed != 0) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const int64_t position = problem.past + first_row + warp * kWarpRows + lane / 4 + r * 8 - first_key;
          const int first =
              static_cast<int>(device::Min(device::Max(position - problem.left, int64_t{0}), int64_t{kKeys}));
          const int last = static_cast<int>(device::Min(position + problem.right, int64_t{kKeys}));
#pragma unroll
          for (int i = 0; i < kTile / 2; ++i) {
            const int key = i / 4 * 8 + i % 2;
            if (i / 2 % 2 == r && (key < first || key > last)) s[i] = kHidden;
          }
        }
      }
      const float unit = adds ? kLog2E : scale * kLog2E;
      float base[2];
      bool folds = !adds;
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const float before = max[r];
#pragma unroll
        for (int i = 2 * r; i < kTile / 2; i += 4) max[r] = SoftmaxMax(max[r], SoftmaxMax(s[i], s[i + 1]));
        max[r] = flash::RowMax(max[r]);
        base[r] = flash::FiniteBase(max[r]);
        folds = folds && std::fabs(base[r] * unit) < kMostFolded;
        if (tile == 0) continue;
        const float factor = device::FastExp2((before - base[r]) * unit);
        sum[r] *= factor;
#pragma unroll
        for (int i = 2 * r; i < kColumns / 2; i += 4) o[i] *= factor, o[i + 1] *= factor;
      }
      const auto weigh = [&](auto&& exponent_of) {
#pragma unroll
        for (int i = 0; i < kTile / 2; ++i) {
          sum[i / 2 % 2] += s[i] = device::FastExp2(exponent_of(s[i], base[i / 2 % 2]));
        }
      };
      if (__all_sync(device::kFullWarp, folds)) {
        base[0] *= unit, base[1] *= unit;
        weigh([&](float score, float largest) { return fmaf(score, unit, -largest); });
      } else {
        weigh([&](float score, float largest) { return (score - largest) * unit; });
      }
      device::FragmentA<T> weights[kTile / kStep];
#pragma unroll
      for (int step = 0; step < kTile / kStep; ++step) {
#pragma unroll
        for (int word = 0; word < 4; ++word) {
          weights[step].word[word] = detail::PackPair<T>(&s[step * 8 + word * 2]);
        }
      }
      if (tile == 0) {
        device::WaitForCopies<0>();
        device::WarpgroupSeesStores();
        __syncthreads();
      }
      device::WarpgroupBegin();
#pragma unroll
      for (int step = 0; step < kTile / kStep; ++step) {
        device::WarpgroupMma(o, weights[step], device::BoxPart::Of(v_box, tile * kTile + step * kStep),
                             (tile | step) != 0);
      }
      device::WarpgroupCommit();
      device::WarpgroupWait<0>();
      device::WarpgroupSettle(o);
    }

    // Rows of the result take the place of the queries, which all products have read, so that whole lines are stored.
    if constexpr (kTiles > 1) __syncthreads();
    unsigned char* const own = q_box + warp * kWarpRows * device::kBoxRowBytes;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float total = flash::RowSum(sum[r]);
      const float factor = total == 0.0f && !problem.empty_is_nan ? 0.0f : 1.0f / total;
#pragma unroll
      for (int n = 0; n < kPieces; ++n) {
        const float pair[2] = {o[4 * n + 2 * r] * factor, o[4 * n + 2 * r + 1] * factor};
        T* const to = reinterpret_cast<T*>(own + device::BoxPieceOffset(lane / 4 + 8 * r, n)) + lane % 4 * 2;
        StorePack(to, Pack<T, 2>{Store<T>(pair[0]), Store<T>(pair[1])});
      }
    }
    __syncwarp();
    T* const y = static_cast<T*>(p.at.y) + batch * problem.y.batch + head * problem.y.head;
#pragma unroll
    for (int r = lane / kPieces; r < kWarpRows; r += 32 / kPieces) {
      const int64_t to = first_row + warp * kWarpRows + r;
      if (to >= queries || lane % kPieces * kPiece >= problem.v_head_size) continue;
      const T* const from = reinterpret_cast<const T*>(own + device::BoxPieceOffset(r, lane % kPieces));
      StorePack(y + to * problem.y.row + lane % kPieces * kPiece, LoadPack<kPiece>(from));
    }
    if (is_real) break;
    __syncthreads();
  }
}

template <class T, int kTile, int kTiles, bool kByScore>
Status LaunchTiles(const FlashArguments& arguments, device::Stream stream) {
  const AttentionProblem& p = arguments.problem;
  constexpr int kKeys = kTile * kTiles;
  device::LaunchConfig config;
  config.grid = {static_cast<unsigned>(CeilDiv(p.queries, int64_t{kRows})), static_cast<unsigned>(p.heads),
                 static_cast<unsigned>(p.batch)};
  config.block.x = kThreads;
  constexpr int kAddedBytes = kByScore ? kKeys / kBoxKeys * kRows * device::kBoxRowBytes : kKeys * int{sizeof(float)};
  config.shared_bytes = (kRows + 2 * kKeys) * device::kBoxRowBytes + kAddedBytes + device::kBoxSlack;
  config.programmatic = true;
  // Few blocks find room beside those of the kernel in front.
  const bool rehearses = kTiles == 1 && int64_t{config.grid.x} * config.grid.y * config.grid.z <= kMostRehearsing;
  return device::Launch(WarpgroupHeadsKernel<T, kTile, kTiles, kByScore>, config, stream, arguments, rehearses);
}

template <class T, bool kByScore>
Status LaunchAdded(const FlashArguments& arguments, device::Stream stream) {
  const int64_t keys = arguments.problem.keys;
  if (keys <= 64) return LaunchTiles<T, 64, 1, kByScore>(arguments, stream);
  return keys <= 128 ? LaunchTiles<T, 128, 1, kByScore>(arguments, stream)
                     : LaunchTiles<T, 128, 2, kByScore>(arguments, stream);
}

template <class T>
Status Launch(const FlashArguments& arguments, device::Stream stream) {
  return arguments.added == FlashAdded::kByScore ? LaunchAdded<T, true>(arguments, stream)
                                                 : LaunchAdded<T, false>(arguments, stream);
}

}  // namespace

Status LaunchWarpgroupHeads(const AttentionPlan& plan, const FlashArguments& arguments, device::Stream stream) {
  return plan.problem.type == DataType::kFloat16 ? Launch<Half>(arguments, stream)
                                                 : Launch<BFloat16>(arguments, stream);
}

}  // namespace cudaep::kernels
