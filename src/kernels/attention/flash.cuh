// The attention kernel: a block has up to 64 rows of queries and walks over the keys in tiles. Included by one file a
// type, which instantiate it.
//
// Algorithm: T. Dao et al., "FlashAttention", NeurIPS 2022 (online softmax over tiles of keys); parts of the keys in
// different blocks after T. Dao et al., "Flash-Decoding", 2023.
//
// Shared memory: the block's queries; two chunks of keys, one in use while the next arrives; a tile of values, which
// arrives while the scores are computed; what is added to the scores of two tiles' keys; for plain products the weights
// of each warp.
#pragma once

#include <algorithm>

#include "kernels/attention/flash_products.cuh"
#include "kernels/attention/flash_work.cuh"

namespace cudaep::kernels {

// Blocks that share a multiprocessor, which the compiler keeps registers for: tiles wait for memory and for each other.
// Four with few spills were 2% slower (BERT-base b32 on an H200) than three without.
template <class Products, int kValues, FlashMode kMode>
inline constexpr int kBlocksTogether = sizeof(typename Products::Element) != 2 || kMode == FlashMode::kScores ? 1
                                       : kValues == 64                                                        ? 3
                                                                                                              : 2;

// kValues: columns of v of a block.
template <class Products, int kValues, FlashMode kMode>
__global__ void __launch_bounds__(kMostWarps * 32, kBlocksTogether<Products, kValues, kMode>)
    FlashKernel(__grid_constant__ const FlashArguments p) {
  using T = typename Products::Element;
  using Sum = typename Products::Sum;
  using Exp = flash::Exponential<T, Sum>;
  constexpr int kKeys = Products::kKeys, kPad = PackElems(sizeof(T));
  constexpr Sum kHidden = -std::numeric_limits<Sum>::infinity();
  constexpr bool kScores = kMode == FlashMode::kScores, kPlain = kMode == FlashMode::kPlain;
  device::GridDependencyWait();

  const AttentionProblem& problem = p.problem;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int rows_of_block = static_cast<int>(blockDim.x) / 32 * kWarpRows;
  const flash::Work work = flash::WorkOf<kScores>(p, rows_of_block, kValues, kKeys);
  const int q_stride = p.depth_chunks * p.depth + kPad, k_stride = p.depth + kPad, v_stride = kValues + kPad;
  T* const q_tile = device::DynamicShared<T>();
  T* const k_tiles = q_tile + rows_of_block * q_stride;
  T* const v_tile = k_tiles + 2 * kKeys * k_stride;
  Sum* const added_tiles = reinterpret_cast<Sum*>(v_tile + kKeys * v_stride);
  [[maybe_unused]] Sum* weights = added_tiles + 2 * kKeys;
  if constexpr (Products::kWeightsInShared) weights += warp * kWarpRows * Products::kWeightStride;

  const int64_t kv_head = work.head / p.group;
  const T* const k = static_cast<const T*>(p.at.k) + work.batch * problem.k.batch + kv_head * problem.k.head;
  const T* const v =
      static_cast<const T*>(p.at.v) + work.batch * problem.v.batch + kv_head * problem.v.head + work.value_column;
  const auto load_keys = [&](int64_t key, int chunk, int slot) {
    const int64_t column = int64_t{chunk} * p.depth;
    flash::LoadRows<kPlain>(k_tiles + slot * kKeys * k_stride, k_stride, kKeys, p.depth, problem.head_size - column,
                            p.k_aligned != 0, k + key * problem.k.row + column, problem.k.row, work.last - key);
    device::CommitCopies();
  };
  const auto load_values = [&](int64_t key) {
    const int64_t end = device::Min(work.last, work.valid_values);
    flash::LoadRows<kPlain>(v_tile, v_stride, kKeys, kValues, problem.v_head_size - work.value_column, p.v_aligned != 0,
                            v + key * problem.v.row, problem.v.row, end - key);
    device::CommitCopies();
  };

  const T* const q = static_cast<const T*>(p.at.q) + work.batch * problem.q.batch;
  flash::LoadTile<kPlain>(q_tile, q_stride, rows_of_block, p.depth_chunks * p.depth, problem.head_size,
                          p.q_aligned != 0, q, [&](int r) {
                            const flash::Row row = flash::RowOf(p, work, work.first_row + r);
                            return row.valid ? q + row.head * problem.q.head + row.query * problem.q.row : nullptr;
                          });
  device::CommitCopies();

  const int64_t warp_row = work.first_row + warp * kWarpRows;
  const bool active = warp_row < work.rows;
  const flash::Row rows[2] = {flash::RowOf(p, work, warp_row + lane / 4),
                              flash::RowOf(p, work, warp_row + lane / 4 + 8)};
  const bool by_key = !kScores && p.added == FlashAdded::kByKey;
  // Each thread's keys of the tile at `key`, for the rows of the block.
  const auto add_by_key = [&](int64_t key, int slot) {
    const flash::Added<T, Sum> added(p, work, flash::RowOf(p, work, work.first_row));
    for (int i = static_cast<int>(threadIdx.x); i < kKeys; i += static_cast<int>(blockDim.x)) {
      added_tiles[slot * kKeys + i] = added(key + i);
    }
  };
  device::FragmentD<Sum> o[kValues / 8] = {};
  Sum max[2] = {kHidden, kHidden}, sum[2] = {};
  if (!kPlain && (p.at.sink != nullptr || p.at.zero_sink) && work.split == 0) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      max[r] = p.at.sink == nullptr ? Sum(0) : static_cast<Sum>(Load(static_cast<const T*>(p.at.sink)[rows[r].head]));
      sum[r] = lane % 4 == 0 ? Sum(1) : Sum(0);
    }
  }

  // The second pass writes probabilities, which need the whole row's sum.
  const int passes = kScores && p.at.scores != nullptr && problem.scores == AttentionScores::kProbabilities ? 2 : 1;
  for (int pass = 0; pass < passes; ++pass) {
    if (work.first < work.last) {
      load_keys(work.first, 0, 0);
      if (by_key) add_by_key(work.first, 0);
    }
    int slot = 0, tile = 0;
    for (int64_t key = work.first; key < work.last; key += kKeys, tile ^= 1) {
      device::FragmentD<Sum> s[kKeys / 8] = {};
      for (int chunk = 0; chunk < p.depth_chunks; ++chunk) {
        device::WaitForCopies<0>();
        __syncthreads();
        if (chunk == 0 && pass == 0) load_values(key);
        if (chunk + 1 < p.depth_chunks) {
          load_keys(key, chunk + 1, slot ^ 1);
        } else if (key + kKeys < work.last) {
          load_keys(key + kKeys, 0, slot ^ 1);
        } else {
          device::CommitCopies();
        }
        if (active) {
          Products::Scores(s, q_tile + warp * kWarpRows * q_stride + chunk * p.depth, q_stride,
                           k_tiles + slot * kKeys * k_stride, k_stride, p.depth);
        }
        slot ^= 1;
      }

      const auto each_score = [&](auto&& body) {
#pragma unroll
        for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
          for (int i = 0; i < 4; ++i) body(s[n].value[i], rows[i / 2], n * 8 + device::MmaColumn(lane, i), i / 2);
        }
      };
      const auto write = [&]([[maybe_unused]] AttentionScores which) {
        if constexpr (kScores) {
          if (p.at.scores == nullptr || problem.scores != which) return;
          each_score([&](Sum score, const flash::Row& row, int column, int) {
            flash::WriteScore<T>(p, work, row, key + column, score);
          });
        }
      };
      // One question a tile, not one a score: what most tiles skip would otherwise lie between all they run.
      each_score([&](Sum& score, const flash::Row&, int, int) { score *= static_cast<Sum>(problem.scale); });
      write(AttentionScores::kProducts);
      if (!kPlain && problem.softcap != 0) {
        each_score([&](Sum& score, const flash::Row&, int, int) {
          score = static_cast<Sum>(problem.softcap) * std::tanh(score / static_cast<Sum>(problem.softcap));
        });
      }
      write(AttentionScores::kCapped);
      if (by_key) {
        const Sum* const added = added_tiles + tile * kKeys;
        each_score([&](Sum& score, const flash::Row&, int column, int) { score += added[column]; });
      } else if (!kPlain && p.added != FlashAdded::kNothing) {
        const flash::Added<T, Sum> added[2] = {{p, work, rows[0]}, {p, work, rows[1]}};
        each_score([&](Sum& score, const flash::Row&, int column, int r) { score += added[r](key + column); });
      }
      if (!flash::IsWhole(p, work, key, kKeys)) {
        const flash::Range seen[2] = {flash::RangeOf(p, work, rows[0], key, kKeys),
                                      flash::RangeOf(p, work, rows[1], key, kKeys)};
        each_score([&](Sum& score, const flash::Row&, int column, int r) {
          if (column < seen[r].begin || column >= seen[r].end) score = kHidden;
        });
      }
      write(AttentionScores::kMasked);

      if (kScores && pass == 1) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const Exp exp{flash::FiniteBase(max[i / 2])};
#pragma unroll
          for (int n = 0; n < kKeys / 8; ++n) {
            const Sum weight = exp(s[n].value[i]);
            flash::WriteScore<T>(p, work, rows[i / 2], key + n * 8 + device::MmaColumn(lane, i),
                                 sum[i / 2] == Sum(0) ? Sum(0) : weight / sum[i / 2]);
          }
        }
        continue;
      }

      Sum old_weight[2];
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        Sum tile_max = kHidden;
#pragma unroll
        for (int n = 0; n < kKeys / 8; ++n) {
          tile_max = SoftmaxMax(tile_max, SoftmaxMax(s[n].value[2 * r], s[n].value[2 * r + 1]));
        }
        const Sum new_max = SoftmaxMax(max[r], flash::RowMax(tile_max));
        const Exp exp{flash::FiniteBase(new_max)};
        old_weight[r] = exp(max[r]);
        max[r] = new_max;
        Sum tile_sum = 0;
#pragma unroll
        for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
          for (int i = 2 * r; i < 2 * r + 2; ++i) tile_sum += s[n].value[i] = exp(s[n].value[i]);
        }
        sum[r] = sum[r] * old_weight[r] + tile_sum;
      }
#pragma unroll
      for (int n = 0; n < kValues / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) o[n].value[i] *= old_weight[i / 2];
      }
      if (by_key && key + kKeys < work.last) add_by_key(key + kKeys, tile ^ 1);
      device::WaitForCopies<1>();  // the values; the keys after them may still arrive
      __syncthreads();
      if (active) Products::Values(o, s, v_tile, v_stride, weights);
    }
    if (pass == 0) {
#pragma unroll
      for (int r = 0; r < 2; ++r) sum[r] = flash::RowSum(sum[r]);
    }
    if (pass + 1 < passes) {
      device::WaitForCopies<0>();
      __syncthreads();
    }
  }
  device::WaitForCopies<0>();

#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const flash::Row& row = rows[r];
    if (!row.valid) continue;
    const int64_t matrix = work.batch * problem.heads + row.head;
    const int64_t columns = problem.v_head_size - work.value_column;
    if (p.splits > 1) {
      const int64_t all_rows = problem.batch * problem.heads * problem.queries;
      const int64_t index = work.split * all_rows + matrix * problem.queries + row.query;
      Sum* const parts = static_cast<Sum*>(p.at.scratch);
      Sum* const to = parts + index * problem.v_head_size + work.value_column;
      if (lane % 4 == 0 && work.value_column == 0) {
        Sum* const base = parts + p.splits * all_rows * problem.v_head_size + 2 * index;
        base[0] = max[r];
        base[1] = sum[r];
      }
#pragma unroll
      for (int n = 0; n < kValues / 8; ++n) {
#pragma unroll
        for (int i = 2 * r; i < 2 * r + 2; ++i) {
          const int column = n * 8 + device::MmaColumn(lane, i);
          if (column < columns) to[column] = o[n].value[i];
        }
      }
      continue;
    }
    T* const to = static_cast<T*>(p.at.y) + work.batch * problem.y.batch + row.head * problem.y.head +
                  row.query * problem.y.row + work.value_column;
    const Sum factor = sum[r] == Sum(0) && !problem.empty_is_nan ? Sum(0) : Sum(1) / sum[r];
#pragma unroll
    for (int n = 0; n < kValues / 8; ++n) {
      const int column = n * 8 + device::MmaColumn(lane, 0);
      Pack<T, 2> pair;
#pragma unroll
      for (int i = 0; i < 2; ++i) pair.value[i] = Store<T>(static_cast<ComputeType<T>>(o[n].value[2 * r + i] * factor));
      if (kPlain || p.y_pairs != 0) {
        if (column < columns) StorePack(to + column, pair);
      } else {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          if (column + i < columns) to[column + i] = pair.value[i];
        }
      }
    }
  }
}

template <class Products, int kValues, FlashMode kMode>
Status LaunchFlashKernel(const AttentionPlan& plan, const FlashArguments& arguments, device::Stream stream) {
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(FlashBlocks(plan) * plan.splits);
  config.block.x = static_cast<unsigned>(plan.warps) * 32;
  config.shared_bytes = plan.shared_bytes;
  config.programmatic = true;
  return device::Launch(FlashKernel<Products, kValues, kMode>, config, stream, arguments);
}

// Of a type with kernels for both widths of v, if kWide, and, if kPlain, with those of that mode.
template <class Products, bool kWide, bool kPlain>
Status LaunchFlash(const AttentionPlan& plan, const FlashArguments& arguments, device::Stream stream) {
  const auto launch = [&]<FlashMode kMode>() {
    if constexpr (kWide && kMode != FlashMode::kScores) {
      if (plan.value_tile == 128) return LaunchFlashKernel<Products, 128, kMode>(plan, arguments, stream);
    }
    return LaunchFlashKernel<Products, 64, kMode>(plan, arguments, stream);
  };
  switch (FlashModeOf(arguments)) {
    case FlashMode::kScores:
      return launch.template operator()<FlashMode::kScores>();
    case FlashMode::kPlain:
      if constexpr (kPlain) return launch.template operator()<FlashMode::kPlain>();
      [[fallthrough]];
    case FlashMode::kAny:
      break;
  }
  return launch.template operator()<FlashMode::kAny>();
}

}  // namespace cudaep::kernels
