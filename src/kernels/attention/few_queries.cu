// Attention of a few queries over many keys, as a step of a decoder has: the queries of all heads that share keys are
// at most 16 rows of a matrix, and what counts is how fast keys and values arrive.
//
// They never meet shared memory: a lane loads 16 bytes of a row, and those are operands of a product as they are. Which
// element of the inner dimension stands where is free as long as both operands agree, and so is the order of columns of
// the result. Each warp walks over keys of its own; their sums meet at the end of the block, those of blocks in
// LaunchJoinSplits.
#include "device/words.h"
#include "kernels/attention/flash_products.cuh"
#include "kernels/attention/flash_work.cuh"
#include "kernels/common/trigger.cuh"

namespace cudaep::kernels {
namespace {

constexpr int kWarps = kFewQueriesWarps;

template <int kDepth>
constexpr int kStepKeys = 2048 / kDepth;  // of a warp: 256 bytes of keys and values a lane
// Whether those of the next step are under way beside them: there are registers for that.
template <int kDepth>
constexpr bool kLoadsAhead = kDepth == 64;

constexpr int kTogether = 2;  // blocks of a multiprocessor

// The operands of 16 keys that a lane has.
template <class T, int kDepth>
struct Keys {
  RawPack<T, 8> k[2][kDepth / 32];  // keys g and g + 8, columns 32 c + 8 t on
  RawPack<T, 8> v[4][kDepth / 64];  // keys 2 t, 2 t + 1, 2 t + 8 and 2 t + 9, columns 64 h + 8 g on

  static __device__ __forceinline__ int KeyOfK(int n) { return static_cast<int>(threadIdx.x) % 32 / 4 + 8 * n; }
  static __device__ __forceinline__ int KeyOfV(int i) {
    return static_cast<int>(threadIdx.x) % 4 * 2 + i % 2 + i / 2 * 8;
  }
  static __device__ __forceinline__ int ColumnOfK(int c) { return 32 * c + 8 * (static_cast<int>(threadIdx.x) % 4); }
  static __device__ __forceinline__ int ColumnOfV(int h) {
    return 64 * h + 8 * (static_cast<int>(threadIdx.x) % 32 / 4);
  }

  // Rows of `keys` and `values` are functions of the key. Zeros from the key `there` on.
  template <class RowOfKeys, class RowOfValues>
  __device__ __forceinline__ void Load(RowOfKeys&& keys, RowOfValues&& values, int there) {
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int c = 0; c < kDepth / 32; ++c) {
        k[n][c] = KeyOfK(n) < there ? LoadRaw<8>(keys(KeyOfK(n)) + ColumnOfK(c)) : RawPack<T, 8>{};
      }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int h = 0; h < kDepth / 64; ++h) {
        v[i][h] = KeyOfV(i) < there ? LoadRaw<8>(values(KeyOfV(i)) + ColumnOfV(h)) : RawPack<T, 8>{};
      }
    }
  }

  // The keys before `there`, or their values. Each element of a row is one lane's.
  template <class RowOfKeys>
  __device__ __forceinline__ void StoreKeys(RowOfKeys&& keys, int there) const {
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int c = 0; c < kDepth / 32; ++c) {
        if (KeyOfK(n) < there) StoreWords<8>(keys(KeyOfK(n)) + ColumnOfK(c), k[n][c]);
      }
    }
  }
  template <class RowOfValues>
  __device__ __forceinline__ void StoreValues(RowOfValues&& values, int there) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int h = 0; h < kDepth / 64; ++h) {
        if (KeyOfV(i) < there) StoreWords<8>(values(KeyOfV(i)) + ColumnOfV(h), v[i][h]);
      }
    }
  }
};

// kCopies: as AttentionPast says.
template <class T, int kDepth, bool kCopies>
__global__ void __launch_bounds__(kWarps * 32, kTogether) FewQueriesKernel(__grid_constant__ const FlashArguments p) {
  using Exp = flash::Exponential<T, float>;
  constexpr float kHidden = -std::numeric_limits<float>::infinity();
  constexpr int kStep = kStepKeys<kDepth>, kGroups = kStep / 16, kHalves = kDepth / 64;
  __shared__ float of_warp[kWarps][2][kWarpRows];  // maximum and sum of each row
  __shared__ float values[kWarps][kWarpRows][kDepth];
  TriggerDependentsOfOneRound(kTogether * kWarps * 32);
  const AttentionProblem& problem = p.problem;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int g = lane / 4, t = lane % 4;
  flash::Work work = flash::PlaceOf(p, kWarpRows, kDepth);
  const int64_t kv_head = flash::Quotient(work.head, p.group);
  const T* const q = static_cast<const T*>(p.at.q) + work.batch * problem.q.batch;
  const T* const k = static_cast<const T*>(p.at.k) + work.batch * problem.k.batch + kv_head * problem.k.head;
  const T* const v = static_cast<const T*>(p.at.v) + work.batch * problem.v.batch + kv_head * problem.v.head;
  const AttentionPast& past = p.at.past;
  const auto past_of = [&](const void* tensor, const AttentionStrides& strides) {
    return static_cast<const T*>(tensor) + work.batch * strides.batch + kv_head * strides.head;
  };
  const T* const past_k = kCopies ? past_of(past.k, past.k_strides) : nullptr;
  const T* const past_v = kCopies ? past_of(past.v, past.v_strides) : nullptr;
  T* const to_k = kCopies ? static_cast<T*>(past.to_k) + (k - static_cast<const T*>(p.at.k)) : nullptr;
  T* const to_v = kCopies ? static_cast<T*>(past.to_v) + (v - static_cast<const T*>(p.at.v)) : nullptr;
  const flash::Row rows[2] = {flash::RowOf(p, work, g), flash::RowOf(p, work, g + 8)};
  flash::Added<T, float> added(p, work, flash::RowOf(p, work, 0));
  const bool adds = p.added != FlashAdded::kNothing;
  device::GridDependencyWait();

  RawPack<T, 8> q_rows[2][kDepth / 32];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const T* const from = q + rows[r].head * problem.q.head + rows[r].query * problem.q.row + 8 * t;
#pragma unroll
    for (int c = 0; c < kDepth / 32; ++c) q_rows[r][c] = rows[r].valid ? LoadRaw<8>(from + 32 * c) : RawPack<T, 8>{};
  }
  flash::FindKeys<false>(p, kFewQueriesKeys, work);  // lengths come while queries are under way
  added.SetKeys(work);

  device::FragmentD<float> o[kHalves][8] = {};
  float max[2] = {kHidden, kHidden}, sum[2] = {};
  const auto there_from = [&](int64_t key) { return static_cast<int>(device::Min(work.last - key, int64_t{kStep})); };
  const auto row_of = [&](const T* rows, int64_t step, const T* past_rows, int64_t past_step, int64_t at) {
    return kCopies && at < past.rows ? past_rows + at * past_step : rows + at * step;
  };
  Keys<T, kDepth> keys[kGroups];
  [[maybe_unused]] Keys<T, kDepth> next[kGroups];
  const auto load = [&](Keys<T, kDepth>(&to)[kGroups], int64_t key) {
#pragma unroll
    for (int i = 0; i < kGroups; ++i) {
      const int64_t first = key + 16 * i;
      to[i].Load([&](int at) { return row_of(k, problem.k.row, past_k, past.k_strides.row, first + at); },
                 [&](int at) { return row_of(v, problem.v.row, past_v, past.v_strides.row, first + at); },
                 there_from(first));
    }
  };
  const int64_t begin = work.first + warp * kStep;
  if constexpr (kLoadsAhead<kDepth>) load(next, begin);
  for (int64_t key = begin; key < work.last; key += kWarps * kStep) {
    const int there = there_from(key);
    if constexpr (kLoadsAhead<kDepth>) {
#pragma unroll
      for (int i = 0; i < kGroups; ++i) keys[i] = next[i];
      load(next, key + kWarps * kStep);
    } else {
      load(keys, key);
    }
    // Of the step's group i, the keys that are copied.
    const auto copied = [&](int i) { return static_cast<int>(device::Min<int64_t>(there, past.rows - key)) - 16 * i; };
    device::FragmentD<float> s[2 * kGroups] = {};
    const auto each_score = [&](auto&& body) {
#pragma unroll
      for (int n = 0; n < 2 * kGroups; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) body(s[n].value[i], n * 8 + device::MmaColumn(lane, i), i / 2);
      }
    };
    // A lane finds what is added to one key's scores.
    const float of_lane = adds && lane < there ? added(key + lane) : 0.0f;
#pragma unroll
    for (int n = 0; n < 2 * kGroups; ++n) {
#pragma unroll
      for (int c = 0; c < kDepth / 32; ++c) {
        const RawPack<T, 8>& b = keys[n / 2].k[n % 2][c];
#pragma unroll
        for (int j = 0; j < 4; j += 2) {
          const device::FragmentA<T> a = {
              {q_rows[0][c].word[j], q_rows[1][c].word[j], q_rows[0][c].word[j + 1], q_rows[1][c].word[j + 1]}};
          device::Mma(s[n], a, device::FragmentB<T>{{b.word[j], b.word[j + 1]}});
        }
      }
    }
    if constexpr (kCopies) {
#pragma unroll
      for (int i = 0; i < kGroups; ++i) {
        keys[i].StoreKeys([&](int at) { return to_k + (key + 16 * i + at) * problem.k.row; }, copied(i));
      }
    }
    each_score([&](float& score, int, int) { score *= static_cast<float>(problem.scale); });
    if (adds) {
#pragma unroll
      for (int n = 0; n < 2 * kGroups; ++n) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const float add = __shfl_sync(device::kFullWarp, of_lane, n * 8 + device::MmaColumn(lane, i));
          s[n].value[i] += add;
          s[n].value[i + 2] += add;
        }
      }
    }
    if (!flash::IsWhole(p, work, key, kStep)) {
      const flash::Range seen[2] = {flash::RangeOf(p, work, rows[0], key, kStep),
                                    flash::RangeOf(p, work, rows[1], key, kStep)};
      each_score([&](float& score, int column, int r) {
        if (column < seen[r].begin || column >= seen[r].end) score = kHidden;
      });
    }
    float step_max[2] = {kHidden, kHidden};
    each_score([&](float score, int, int r) { step_max[r] = SoftmaxMax(step_max[r], score); });
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float new_max = SoftmaxMax(max[r], flash::RowMax(step_max[r]));
      const float old_weight = Exp{flash::FiniteBase(new_max)}(max[r]);
      max[r] = new_max;
      sum[r] *= old_weight;
#pragma unroll
      for (int h = 0; h < kHalves; ++h) {
#pragma unroll
        for (int n = 0; n < 8; ++n) {
          o[h][n].value[2 * r] *= old_weight;
          o[h][n].value[2 * r + 1] *= old_weight;
        }
      }
    }
    const Exp exp[2] = {Exp{flash::FiniteBase(max[0])}, Exp{flash::FiniteBase(max[1])}};
    each_score([&](float& score, int, int r) { sum[r] += score = exp[r](score); });
#pragma unroll
    for (int i = 0; i < kGroups; ++i) {
      device::FragmentA<T> a;
#pragma unroll
      for (int word = 0; word < 4; ++word) {
        a.word[word] = detail::PackPair<T>(&s[2 * i + word / 2].value[word % 2 * 2]);
      }
      const auto& from = keys[i].v;
#pragma unroll
      for (int h = 0; h < kHalves; ++h) {
#pragma unroll
        for (int n = 0; n < 8; n += 2) {
          const auto b = [&]<bool kUpper>() {
            return device::FragmentB<T>{{device::JoinHalves<kUpper>(from[0][h].word[n / 2], from[1][h].word[n / 2]),
                                         device::JoinHalves<kUpper>(from[2][h].word[n / 2], from[3][h].word[n / 2])}};
          };
          device::Mma(o[h][n], a, b.template operator()<false>());
          device::Mma(o[h][n + 1], a, b.template operator()<true>());
        }
      }
      if constexpr (kCopies) {
        keys[i].StoreValues([&](int at) { return to_v + (key + 16 * i + at) * problem.v.row; }, copied(i));
      }
    }
  }

#pragma unroll
  for (int r = 0; r < 2; ++r) {
    sum[r] = flash::RowSum(sum[r]);
    if (t == 0) {
      of_warp[warp][0][g + 8 * r] = max[r];
      of_warp[warp][1][g + 8 * r] = sum[r];
    }
#pragma unroll
    for (int h = 0; h < kHalves; ++h) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float* const to = &values[warp][g + 8 * r][64 * h + 8 * (2 * t + i)];
#pragma unroll
        for (int n = 0; n < 8; ++n) to[n] = o[h][n].value[2 * r + i];
      }
    }
  }
  __syncthreads();

  const int64_t all_rows = problem.batch * problem.heads * problem.queries;
  for (int at = static_cast<int>(threadIdx.x); at < static_cast<int>(work.rows) * (kDepth / 2); at += kWarps * 32) {
    const int r = at / (kDepth / 2), column = at % (kDepth / 2) * 2;
    float row_max = kHidden, row_sum = 0, pair[2] = {};
#pragma unroll
    for (int w = 0; w < kWarps; ++w) row_max = SoftmaxMax(row_max, of_warp[w][0][r]);
    const Exp exp{flash::FiniteBase(row_max)};
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      const float weight = exp(of_warp[w][0][r]);
      row_sum += weight * of_warp[w][1][r];
      pair[0] += weight * values[w][r][column];
      pair[1] += weight * values[w][r][column + 1];
    }
    const flash::Row row = flash::RowOf(p, work, r);
    if (p.splits > 1) {
      const int64_t matrix = work.batch * problem.heads + row.head;
      const int64_t index = work.split * all_rows + matrix * problem.queries + row.query;
      float* const parts = static_cast<float*>(p.at.scratch);
      StorePack(parts + index * kDepth + column, Pack<float, 2>{pair[0], pair[1]});
      if (column == 0) {
        float* const base = parts + p.splits * all_rows * kDepth + 2 * index;
        base[0] = row_max;
        base[1] = row_sum;
      }
      continue;
    }
    const float factor = row_sum == 0.0f && !problem.empty_is_nan ? 0.0f : 1.0f / row_sum;
    T* const to = static_cast<T*>(p.at.y) + work.batch * problem.y.batch + row.head * problem.y.head +
                  row.query * problem.y.row + column;
    StorePack(to, Pack<T, 2>{Store<T>(pair[0] * factor), Store<T>(pair[1] * factor)});
  }
}

template <class T>
Status Launch(const AttentionPlan& plan, const FlashArguments& arguments, device::Stream stream) {
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(FlashBlocks(plan) * plan.splits);
  config.block.x = kWarps * 32;
  config.programmatic = true;
  const auto launch = [&](auto kernel, auto copying) {
    return device::Launch(arguments.at.past.k == nullptr ? kernel : copying, config, stream, arguments);
  };
  return plan.problem.head_size == 64 ? launch(FewQueriesKernel<T, 64, false>, FewQueriesKernel<T, 64, true>)
                                      : launch(FewQueriesKernel<T, 128, false>, FewQueriesKernel<T, 128, true>);
}

}  // namespace

Status LaunchFewQueries(const AttentionPlan& plan, const FlashArguments& arguments, device::Stream stream) {
  return plan.problem.type == DataType::kFloat16 ? Launch<Half>(plan, arguments, stream)
                                                 : Launch<BFloat16>(plan, arguments, stream);
}

}  // namespace cudaep::kernels
