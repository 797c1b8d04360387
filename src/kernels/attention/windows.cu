// Attention of many short windows whose scores have something added, as Swin's and its kin have it: relative positions,
// and what hides parts of a window that was shifted. A warp has a window's keys and values at once and walks over its
// rows of queries; none of them meets shared memory (few_queries.cu says how rows become operands). What is added is
// brought once for the windows of a block, which share it.
#include "core/checked_math.h"
#include "device/words.h"
#include "kernels/attention/flash_products.cuh"
#include "kernels/attention/flash_work.cuh"

namespace cudaep::kernels {
namespace {

constexpr int kKeys = kWindowKeys, kWarps = kMostWarps;
constexpr int kAddedStride = kKeys + PackElems(2);

struct WindowArguments {
  FlashArguments flash;
  uint32_t entries;  // of the batch that differ in what is added; windows that lie so far apart share it
  int together;      // warps that share the rows of a window
};

// A lane's part of a window: keys 8 n + g, columns 8 t on; values of keys 16 s + 2 t, + 1, + 8 and + 9, columns 4 g on.
template <class T>
struct Window {
  RawPack<T, 8> k[kKeys / 8];
  RawPack<T, 4> v[kKeys / 16][4];

  __device__ __forceinline__ void Load(const T* keys, int64_t k_step, const T* values, int64_t v_step, int there) {
    const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n) {
      const int key = n * 8 + g;
      k[n] = key < there ? LoadRaw<8>(keys + key * k_step + 8 * t) : RawPack<T, 8>{};
    }
#pragma unroll
    for (int s = 0; s < kKeys / 16; ++s) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int key = s * 16 + 2 * t + i % 2 + i / 2 * 8;
        v[s][i] = key < there ? LoadRaw<4>(values + key * v_step + 4 * g) : RawPack<T, 4>{};
      }
    }
  }
};

template <class T>
struct QueryRows {
  RawPack<T, 8> row[2];  // g and g + 8

  __device__ __forceinline__ void Load(const T* rows, int64_t step, int first, int there) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int at = first + lane / 4 + 8 * r;
      row[r] = at < there ? LoadRaw<8>(rows + at * step + lane % 4 * 8) : RawPack<T, 8>{};
    }
  }
};

template <class T>
__global__ void __launch_bounds__(kWarps * 32, 3) WindowsKernel(__grid_constant__ const WindowArguments arguments) {
  using Exp = flash::Exponential<T, float>;
  constexpr float kHidden = -std::numeric_limits<float>::infinity();
  __shared__ T added[kKeys][kAddedStride];
  const FlashArguments& p = arguments.flash;
  const AttentionProblem& problem = p.problem;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int warps = static_cast<int>(blockDim.x) / 32, t = lane % 4;
  const int queries = static_cast<int>(problem.queries), keys = static_cast<int>(problem.keys);
  // Heads of a window are neighbours in memory, so they are in the grid.
  const auto heads = static_cast<uint32_t>(problem.heads);
  const uint32_t head = blockIdx.x % heads, index = blockIdx.x / heads;
  const uint32_t entry = index % arguments.entries, group = index / arguments.entries;
  const auto window = static_cast<int64_t>(group) * (warps / arguments.together) + warp / arguments.together;
  const int64_t batch = entry + window * arguments.entries;
  const bool active = batch < problem.batch;
  const auto row_of = [&](const void* tensor, const AttentionStrides& strides, int64_t of_head) {
    return static_cast<const T*>(tensor) + batch * strides.batch + of_head * strides.head;
  };
  const T* const q = row_of(p.at.q, problem.q, head);
  const int first_row = warp % arguments.together * kWarpRows, row_step = arguments.together * kWarpRows;
  device::GridDependencyWait();

  Window<T> of;
  QueryRows<T> rows;
  if (active) {
    const int64_t kv_head = p.group == 1 ? head : head / static_cast<uint32_t>(p.group);
    rows.Load(q, problem.q.row, first_row, queries);
    of.Load(row_of(p.at.k, problem.k, kv_head), problem.k.row, row_of(p.at.v, problem.v, kv_head), problem.v.row, keys);
  }
  const ScoreStrides& strides = problem.bias_strides;
  const T* const bias = static_cast<const T*>(p.at.bias) + entry * strides.batch + head * strides.head;
  const int given = static_cast<int>(device::Min(strides.keys, problem.keys));
#pragma unroll 4
  for (int row = warp; row < queries; row += warps) {
#pragma unroll
    for (int key = lane; key < kKeys; key += 32) {
      added[row][key] = key < given ? bias[row * strides.query + key * strides.key] : Store<T>(kHidden);
    }
  }
  __syncthreads();
  if (!active) return;

  const auto scale = static_cast<float>(problem.scale);
#pragma unroll 1
  for (int first = first_row; first < queries; first += row_step) {
    device::FragmentD<float> s[kKeys / 8] = {};
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
      for (int j = 0; j < 4; j += 2) {
        const device::FragmentA<T> a = {
            {rows.row[0].word[j], rows.row[1].word[j], rows.row[0].word[j + 1], rows.row[1].word[j + 1]}};
        device::Mma(s[n], a, device::FragmentB<T>{{of.k[n].word[j], of.k[n].word[j + 1]}});
      }
    }
    rows.Load(q, problem.q.row, first + row_step, queries);

    float max[2] = {kHidden, kHidden}, sum[2] = {};
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const T* const row = added[device::Min(first + lane / 4 + 8 * r, queries - 1)];
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n) {
        const Pack<T, 2> add = LoadPack<2>(row + n * 8 + 2 * t);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float& score = s[n].value[2 * r + i];
          score = score * scale + static_cast<float>(Load(add.value[i]));
          max[r] = SoftmaxMax(max[r], score);
        }
      }
      const Exp exp{flash::FiniteBase(flash::RowMax(max[r]))};
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
        for (int i = 2 * r; i < 2 * r + 2; ++i) sum[r] += s[n].value[i] = exp(s[n].value[i]);
      }
    }

    device::FragmentD<float> o[4] = {};  // of columns 4 c + j, c = 0 to 7
#pragma unroll
    for (int k = 0; k < kKeys / 16; ++k) {
      device::FragmentA<T> a;
#pragma unroll
      for (int word = 0; word < 4; ++word) {
        a.word[word] = detail::PackPair<T>(&s[2 * k + word / 2].value[word % 2 * 2]);
      }
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const auto b = [&]<bool kUpper>() {
          return device::FragmentB<T>{{device::JoinHalves<kUpper>(of.v[k][0].word[j], of.v[k][1].word[j]),
                                       device::JoinHalves<kUpper>(of.v[k][2].word[j], of.v[k][3].word[j])}};
        };
        device::Mma(o[2 * j], a, b.template operator()<false>());
        device::Mma(o[2 * j + 1], a, b.template operator()<true>());
      }
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float total = flash::RowSum(sum[r]);
      const int row = first + lane / 4 + 8 * r;
      if (row >= queries) continue;
      const float factor = total == 0.0f && !problem.empty_is_nan ? 0.0f : 1.0f / total;
      Pack<T, 8> pack;
#pragma unroll
      for (int i = 0; i < 8; ++i) pack.value[i] = Store<T>(o[i % 4].value[2 * r + i / 4] * factor);
      StorePack(static_cast<T*>(p.at.y) + batch * problem.y.batch + head * problem.y.head + row * problem.y.row + 8 * t,
                pack);
    }
  }
}

template <class T>
Status Launch(const AttentionPlan& plan, const FlashArguments& arguments, device::Stream stream) {
  const AttentionProblem& p = plan.problem;
  const int64_t entries = WindowEntries(p), windows = CeilDiv(p.batch, entries);
  const int together = plan.window_warps;
  const int64_t of_block = std::min<int64_t>(windows, kWarps / together);
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(p.heads * entries * CeilDiv(windows, of_block));
  config.block.x = static_cast<unsigned>(of_block * together * 32);
  config.programmatic = true;
  const WindowArguments window{arguments, static_cast<uint32_t>(entries), together};
  return device::Launch(WindowsKernel<T>, config, stream, window);
}

}  // namespace

Status LaunchWindows(const AttentionPlan& plan, const FlashArguments& arguments, device::Stream stream) {
  return plan.problem.type == DataType::kFloat16 ? Launch<Half>(plan, arguments, stream)
                                                 : Launch<BFloat16>(plan, arguments, stream);
}

}  // namespace cudaep::kernels
