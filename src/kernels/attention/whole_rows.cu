// Attention of short sequences: a block has all keys of its head at once, so scores stay in registers from the first
// product to the second, and nothing is rescaled. Everything is asked for before the first wait.
//
// Where launches are this short, what counts is the way from the first instruction to the first load and how many
// instructions are fetched at all: indices come from the grid, and there is one loop over the head's columns.
#include "core/checked_math.h"
#include "kernels/attention/flash_products.cuh"
#include "kernels/attention/flash_work.cuh"

namespace cudaep::kernels {
namespace {

constexpr int kColumns = kWholeRowsHead, kStride = kColumns + PackElems(2);
constexpr int kBlocksTogether = 4;

// kTiles of 64 keys.
template <class T, int kTiles>
__global__ void __launch_bounds__(kMostWarps * 32, kBlocksTogether)
    WholeRowsKernel(__grid_constant__ const FlashArguments p) {
  using Products = TensorCoreProducts<T>;
  using Exp = flash::Exponential<T, float>;
  constexpr int kTileKeys = Products::kKeys, kKeys = kTiles * kTileKeys;
  constexpr float kHidden = -std::numeric_limits<float>::infinity();
  const AttentionProblem& problem = p.problem;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int rows_of_block = static_cast<int>(blockDim.x) / 32 * kWarpRows;
  const int first_row = static_cast<int>(blockIdx.x) * rows_of_block, head = static_cast<int>(blockIdx.y);
  const int queries = static_cast<int>(problem.queries), keys = static_cast<int>(problem.keys);
  const int depth = (static_cast<int>(problem.head_size) + 15) / 16 * 16;
  const int64_t batch = blockIdx.z, kv_head = p.group == 1 ? head : head / p.group;
  T* const q_tile = device::DynamicShared<T>();
  T* const k_tile = q_tile + rows_of_block * kStride;
  T* const v_tile = k_tile + kKeys * kStride;
  float* const added_tile = reinterpret_cast<float*>(v_tile + kKeys * kStride);
  const auto load = [&](T* tile, int rows, int columns, int64_t valid, const void* from,
                        const AttentionStrides& strides, int64_t of_head, int first, int64_t all_rows) {
    const T* const row = static_cast<const T*>(from) + batch * strides.batch + of_head * strides.head;
    flash::LoadRows<true>(tile, kStride, rows, columns, valid, true, row + first * strides.row, strides.row,
                          all_rows - first);
  };
  device::GridDependencyWait();

  load(q_tile, rows_of_block, depth, problem.head_size, p.at.q, problem.q, head, first_row, queries);
  load(k_tile, kKeys, depth, problem.head_size, p.at.k, problem.k, kv_head, 0, keys);
  device::CommitCopies();
  load(v_tile, kKeys, kColumns, problem.v_head_size, p.at.v, problem.v, kv_head, 0, keys);
  device::CommitCopies();
  const flash::Added<T, float> added(p, {.batch = batch, .begin = 0, .end = keys}, {true, head, 0});
  for (int key = static_cast<int>(threadIdx.x); key < kKeys; key += static_cast<int>(blockDim.x)) {
    added_tile[key] = key < keys ? added(key) : kHidden;
  }
  device::WaitForCopies<1>();
  __syncthreads();

  const int warp_row = first_row + warp * kWarpRows;
  const bool active = warp_row < queries;
  device::FragmentD<float> s[kTiles][kTileKeys / 8] = {};
  float sum[2] = {};
  if (active) {
    const auto scale = static_cast<float>(problem.scale);
    float max[2] = {kHidden, kHidden};
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      Products::Scores(s[tile], q_tile + warp * kWarpRows * kStride, kStride, k_tile + tile * kTileKeys * kStride,
                       kStride, depth);
    }
    const auto each_score = [&](auto&& body) {
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
        for (int n = 0; n < kTileKeys / 8; ++n) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            body(s[tile][n].value[i], tile * kTileKeys + n * 8 + device::MmaColumn(lane, i), i / 2);
          }
        }
      }
    };
    each_score([&](float& score, int key, int) { score = score * scale + added_tile[key]; });
    if (p.windowed != 0) {
      int first[2], last[2];
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int64_t position = problem.past + warp_row + lane / 4 + r * 8;
        first[r] = static_cast<int>(device::Min(position - problem.left, int64_t{kKeys}));
        last[r] = static_cast<int>(device::Min(position + problem.right, int64_t{kKeys}));
      }
      each_score([&](float& score, int key, int r) {
        if (key < first[r] || key > last[r]) score = kHidden;
      });
    }
    each_score([&](float& score, int, int r) { max[r] = SoftmaxMax(max[r], score); });
    const Exp exp[2] = {Exp{flash::FiniteBase(flash::RowMax(max[0]))}, Exp{flash::FiniteBase(flash::RowMax(max[1]))}};
    each_score([&](float& score, int, int r) { sum[r] += score = exp[r](score); });
  }
  device::WaitForCopies<0>();
  __syncthreads();
  if (!active) return;

  device::FragmentD<float> o[kColumns / 8] = {};
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
    Products::Values(o, s[tile], v_tile + tile * kTileKeys * kStride, kStride, static_cast<float*>(nullptr));
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float total = flash::RowSum(sum[r]);
    const int row = warp_row + lane / 4 + r * 8;
    if (row >= queries) continue;
    const float factor = total == 0.0f && !problem.empty_is_nan ? 0.0f : 1.0f / total;
    T* const to = static_cast<T*>(p.at.y) + batch * problem.y.batch + head * problem.y.head + row * problem.y.row;
#pragma unroll
    for (int n = 0; n < kColumns / 8; ++n) {
      const int column = n * 8 + device::MmaColumn(lane, 0);
      if (column >= problem.v_head_size) continue;
      StorePack(to + column,
                Pack<T, 2>{Store<T>(o[n].value[2 * r] * factor), Store<T>(o[n].value[2 * r + 1] * factor)});
    }
  }
}

template <class T>
Status Launch(const AttentionPlan& plan, const FlashArguments& arguments, device::Stream stream) {
  const AttentionProblem& p = plan.problem;
  const int tiles = p.keys > 64 ? 2 : 1, rows = plan.whole_rows_warps * kWarpRows;
  device::LaunchConfig config;
  config.grid = {static_cast<unsigned>(CeilDiv(p.queries, int64_t{rows})), static_cast<unsigned>(p.heads),
                 static_cast<unsigned>(p.batch)};
  config.block.x = static_cast<unsigned>(plan.whole_rows_warps) * 32;
  config.shared_bytes = static_cast<size_t>(rows + 2 * 64 * tiles) * kStride * sizeof(T) + 64 * tiles * sizeof(float);
  config.programmatic = true;
  return device::Launch(tiles == 1 ? WholeRowsKernel<T, 1> : WholeRowsKernel<T, 2>, config, stream, arguments);
}

}  // namespace

Status LaunchWholeRows(const AttentionPlan& plan, const FlashArguments& arguments, device::Stream stream) {
  return plan.problem.type == DataType::kFloat16 ? Launch<Half>(plan, arguments, stream)
                                                 : Launch<BFloat16>(plan, arguments, stream);
}

}  // namespace cudaep::kernels
