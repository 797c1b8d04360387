#include "core/checked_math.h"
#include "device/pairs.h"
#include "device/warpgroup.h"
#include "kernels/elementwise/gelu.cuh"
#include "kernels/gemm/gelu_product.h"
#include "kernels/pack.h"

namespace cudaep::kernels {
namespace {

constexpr int kRows = kGeluTileRows, kDepth = device::kBoxColumns;
constexpr int kGroups = 2, kWarps = device::kWarpgroupThreads / 32;       // that multiply, and warps of each
constexpr unsigned kThreads = (1 + kGroups) * device::kWarpgroupThreads;  // the first group's bring boxes
// What the block was launched with is divided anew: 168 for each thread, as the compiler has it with kThreads.
constexpr int kFetchRegisters = 24, kMultiplyRegisters = 240;  // of a thread
static_assert(kFetchRegisters + kGroups * kMultiplyRegisters == (1 + kGroups) * 168);
constexpr size_t kBoxSlack = device::kBoxAlignment - 16;  // shared memory is aligned to 16

struct Arguments {
  void* c;
  const void* bias;  // or null
  int32_t m, n, row_tiles, tiles, steps, unused;
};

// Four words of each of four neighbouring lanes: word i of lane t becomes word t of lane i.
__device__ __forceinline__ void TransposeQuad(uint32_t (&word)[4], int t) {
#pragma unroll
  for (int bit = 1; bit < 4; bit *= 2) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int low = bit == 1 ? 2 * i : i, high = low + bit;
      const bool upper = (t & bit) != 0;
      const uint32_t other = __shfl_xor_sync(device::kFullWarp, upper ? word[low] : word[high], bit);
      if (upper) {
        word[low] = other;
      } else {
        word[high] = other;
      }
    }
  }
}

// What the warps of a block share beside the boxes.
template <class T, int kColumns, int kStages>
struct Shared {
  device::CopyBarrier full[kStages], empty[kStages], turn[kGroups];
  Pack<T, 2> bias[kGroups * kWarps][kColumns / 2];
};

// A stage's boxes: of A, then of B.
template <int kColumns>
constexpr int kStageBytes = (kRows + kColumns) * device::kBoxRowBytes;

template <class T, int kColumns, int kStages>
__device__ __forceinline__ void FetchBoxes(const Arguments& p, const device::TensorMap& a, const device::TensorMap& b,
                                           Shared<T, kColumns, kStages>& shared, unsigned char* boxes) {
  int stage = 0;
  unsigned parity = 1;  // of what is free from the start
  for (int tile = static_cast<int>(blockIdx.x); tile < p.tiles; tile += static_cast<int>(gridDim.x)) {
    const int row = tile % p.row_tiles * kRows, column = tile / p.row_tiles * kColumns;
    for (int step = 0; step < p.steps; ++step) {
      device::CopyBarrier* const full = &shared.full[stage];
      unsigned char* const to = boxes + stage * kStageBytes<kColumns>;
      shared.empty[stage].Wait(parity);
      full->ArriveExpecting(kStageBytes<kColumns>);
      device::CopyBox(to, a, step * kDepth, row, full);
      device::CopyBox(to + kRows * device::kBoxRowBytes, b, step * kDepth, column, full);
      if (++stage == kStages) stage = 0, parity ^= 1;
    }
  }
}

// By a warp: 32 columns of 16 rows, of which the thread has the sums.
template <class T>
__device__ __forceinline__ void FinishColumns(const Arguments& p, const float* sum, const Pack<T, 2>* bias, int row,
                                              int column) {
  const int quad = static_cast<int>(threadIdx.x) % 4;
  uint32_t upper[4], lower[4];  // of the rows and those eight below
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const Pack<T, 2> term = bias[i * 4 + quad];
    const float low = ToFloat(term.value[0]), high = ToFloat(term.value[1]);
    upper[i] = device::PairOf<T>(RoundedGelu<T>(sum[i * 4] + low), RoundedGelu<T>(sum[i * 4 + 1] + high));
    lower[i] = device::PairOf<T>(RoundedGelu<T>(sum[i * 4 + 2] + low), RoundedGelu<T>(sum[i * 4 + 3] + high));
  }
  TransposeQuad(upper, quad);
  TransposeQuad(lower, quad);
  column += quad * kGeluProductPack;
  const auto store = [&](const uint32_t(&word)[4], int to) {
    if (column >= p.n || to >= p.m) return;
    StorePack(static_cast<uint32_t*>(p.c) + (int64_t{to} * p.n + column) / 2,
              Pack<uint32_t, 4>{{word[0], word[1], word[2], word[3]}});
  };
  store(upper, row);
  store(lower, row + 8);
}

// kTurns: each group has every second tile of the block, else half of the rows of each.
template <class T, int kColumns, int kStages, bool kTurns>
__device__ __forceinline__ void MultiplyTiles(const Arguments& p, Shared<T, kColumns, kStages>& shared,
                                              const unsigned char* boxes) {
  constexpr int kParts = kRows / device::kWarpgroupRows / (kTurns ? 1 : kGroups);
  const int group = static_cast<int>(threadIdx.x) / device::kWarpgroupThreads - 1;
  const int warp = static_cast<int>(threadIdx.x) / 32 % kWarps, lane = static_cast<int>(threadIdx.x) % 32;
  const int first_row = kTurns ? 0 : group * device::kWarpgroupRows;
  Pack<T, 2>* const bias = shared.bias[group * kWarps + warp];
  int stage = 0, turn = 0;
  unsigned parity = 0, own_turn = group == 0 ? 1 : 0;  // the first group's turn is over from the start
  for (int tile = static_cast<int>(blockIdx.x); tile < p.tiles; tile += static_cast<int>(gridDim.x), turn ^= 1) {
    if (kTurns && turn != group) {
      for (stage += p.steps; stage >= kStages; stage -= kStages) parity ^= 1;
      continue;
    }
    const int row = tile % p.row_tiles * kRows + first_row, column = tile / p.row_tiles * kColumns;
    __syncwarp();
    for (int i = lane; i < kColumns / 2; i += 32) {
      const bool any = p.bias != nullptr && column + 2 * i < p.n;
      bias[i] = any ? LoadPack<2>(static_cast<const T*>(p.bias) + column + 2 * i) : Pack<T, 2>{};
    }
    __syncwarp();

    // A barrier tells only whether its last phase is over: who is ahead of the other group would take an old one for
    // it.
    if (kTurns) shared.turn[group].Wait(own_turn);
    own_turn ^= 1;
    float sum[kParts][kColumns / 2];
    device::CopyBarrier* done = nullptr;  // with what the products before these read
    for (int step = 0; step < p.steps; ++step) {
      shared.full[stage].Wait(parity);
      const unsigned char* const box = boxes + stage * kStageBytes<kColumns>;
      const device::BoxPart b = device::BoxPart::Of(box + kRows * device::kBoxRowBytes);
      device::WarpgroupBegin();
#pragma unroll
      for (int depth = 0; depth < kDepth / device::kWarpgroupDepth; ++depth) {
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
          const auto a = device::BoxPart::Of(box, first_row + part * device::kWarpgroupRows);
          device::WarpgroupMma<T, kColumns>(sum[part], a.At(depth), b.At(depth), (step | depth) != 0);
        }
      }
      device::WarpgroupCommit();
      device::WarpgroupWait<1>();
      if (lane == 0 && done != nullptr) done->Arrive();
      done = &shared.empty[stage];
      if (++stage == kStages) stage = 0, parity ^= 1;
    }
    if (kTurns && lane == 0) shared.turn[1 - group].Arrive();
    device::WarpgroupWait<0>();
    if (lane == 0) done->Arrive();
#pragma unroll
    for (int first = 0; first < kColumns; first += 32) {
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        FinishColumns<T>(p, &sum[part][first / 2], bias + first / 2,
                         row + part * device::kWarpgroupRows + warp * 16 + lane / 4, column + first);
      }
    }
  }
}

template <class T, int kColumns, int kStages, bool kTurns>
__global__ void __launch_bounds__(kThreads, 1)
    GeluProductKernel(const __grid_constant__ device::TensorMap a, const __grid_constant__ device::TensorMap b,
                      const __grid_constant__ Arguments p) {
  __shared__ Shared<T, kColumns, kStages> shared;
  auto* const dynamic = device::DynamicShared<unsigned char>();
  const auto misplaced = reinterpret_cast<uintptr_t>(dynamic) % device::kBoxAlignment;
  unsigned char* const boxes = dynamic + (misplaced == 0 ? 0 : device::kBoxAlignment - misplaced);
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      shared.full[i].Init(1);
      shared.empty[i].Init(kTurns ? kWarps : kGroups * kWarps);
    }
    for (device::CopyBarrier& turn : shared.turn) turn.Init(kWarps);
    device::FenceCopyBarriers();
  }
  __syncthreads();
  device::GridDependencyWait();
  if (threadIdx.x < device::kWarpgroupThreads) {
    device::KeepRegisters<kFetchRegisters>();
    if (threadIdx.x == 0) FetchBoxes<T, kColumns, kStages>(p, a, b, shared, boxes);
  } else {
    device::TakeRegisters<kMultiplyRegisters>();
    MultiplyTiles<T, kColumns, kStages, kTurns>(p, shared, boxes);
  }
}

template <class T, int kColumns, int kStages, bool kTurns>
Status Launch(const GeluProduct& product, const GeluProductPlan& plan, const GeluProductPointers& at,
              device::Stream stream) {
  device::TensorMap a, b;
  CUDAEP_RETURN_IF_ERROR(device::MakeTensorMap(at.a, product.m, product.k, kRows, &a));
  CUDAEP_RETURN_IF_ERROR(device::MakeTensorMap(at.b, product.n, product.k, kColumns, &b));
  const auto row_tiles = CeilDiv<int64_t>(product.m, kRows), tiles = row_tiles * CeilDiv<int64_t>(product.n, kColumns);
  const Arguments arguments{.c = at.c,
                            .bias = product.bias ? at.bias : nullptr,
                            .m = static_cast<int32_t>(product.m),
                            .n = static_cast<int32_t>(product.n),
                            .row_tiles = static_cast<int32_t>(row_tiles),
                            .tiles = static_cast<int32_t>(tiles),
                            .steps = static_cast<int32_t>(CeilDiv<int64_t>(product.k, kDepth)),
                            .unused = 0};
  device::LaunchConfig config;
  static_assert(size_t{kStages} * kStageBytes<kColumns> + kBoxSlack + sizeof(Shared<T, kColumns, kStages>) <=
                kGeluSharedBytes);
  config.grid.x = plan.blocks;
  config.block.x = kThreads;
  config.shared_bytes = size_t{kStages} * kStageBytes<kColumns> + kBoxSlack;
  config.programmatic = true;
  return device::Launch(GeluProductKernel<T, kColumns, kStages, kTurns>, config, stream, a, b, arguments);
}

template <class T>
Status LaunchOf(const GeluProduct& product, const GeluProductPlan& plan, const GeluProductPointers& at,
                device::Stream stream) {
  switch (plan.tiles) {
    case GeluTiles::kSmall:
      return Launch<T, 128, 6, false>(product, plan, at, stream);
    case GeluTiles::kWide:
      return Launch<T, 192, 5, false>(product, plan, at, stream);
    case GeluTiles::kTurns:
      return Launch<T, 192, 5, true>(product, plan, at, stream);
  }
  return InvalidArgument("no tiles of a product with GELU");
}

}  // namespace

Status LaunchGeluProduct(const GeluProduct& product, const GeluProductPlan& plan, const GeluProductPointers& at,
                         device::Stream stream) {
  if (product.m == 0 || product.n == 0) return Status::Ok();
  if (product.type != DataType::kFloat16 && product.type != DataType::kBFloat16) {
    return NotSupported("a product with GELU of ", DataTypeName(product.type));
  }
  return product.type == DataType::kFloat16 ? LaunchOf<Half>(product, plan, at, stream)
                                            : LaunchOf<BFloat16>(product, plan, at, stream);
}

}  // namespace cudaep::kernels
