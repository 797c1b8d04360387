// How products of many rows (many_rows.h) end: bias, residual, activation. Included by a file for each set of tiles.
#pragma once

#include <type_traits>

#include "device/pairs.h"
#include "kernels/elementwise/gelu.cuh"
#include "kernels/gemm/many_rows.h"
#include "kernels/gemm/warpgroup_product.cuh"
#include "kernels/pack.h"

namespace cudaep::kernels {

// The activations that an end is compiled for: each instruction more has to be fetched by a kernel that runs for a few
// us, so these are few.
enum class RowsActivation : uint8_t { kNone, kNoneOrRelu, kGeluErf };

// What a thread has of a segment: eight columns side by side, from this one on.
__device__ __forceinline__ int ColumnOfThread() { return static_cast<int>(threadIdx.x) % 4 * kManyRowsPack; }
// Of the residual's box, what the thread adds in its upper row or the one `below` it.
template <class T>
__device__ __forceinline__ Pack<T, kManyRowsPack> ResidualOfThread(const unsigned char* box, int first, int below) {
  constexpr int kWarpRows = device::kWarpgroupRows / warpgroup::kWarps;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32 % warpgroup::kWarps;
  const int row = warp * kWarpRows + lane / 4 + below,
            piece = (first % device::kBoxColumns + ColumnOfThread()) / kManyRowsPack;
  return LoadPack<kManyRowsPack>(reinterpret_cast<const T*>(box + device::BoxPieceOffset(row, piece)));
}

// Where a thread has its part of C.
template <class T>
struct RowsOfThread {
  T* upper;     // in its first row and the tile's first segment
  bool has[2];  // whether C has this row, and the one eight below

  __device__ __forceinline__ void Place(void* c, int row, int column, int m, int n) {
    upper = static_cast<T*>(c) + int64_t{row} * n + column + ColumnOfThread();
    has[0] = row < m;
    has[1] = row + 8 < m;
  }
};

struct NoMap {
  uint64_t unused = 0;  // without padding, where the simulated device might find an old pointer
};

// kPointwise: of so many rows that the L2 cache holds a part of them. kTiles: those that it is compiled for.
template <class T, RowsActivation kActivation, bool kPointwise, bool kHasResidual, WarpgroupTiles... kTiles>
struct RowsFinish {
  static constexpr int kPack = kManyRowsPack;  // columns of a segment that a thread has
  using Element = T;
  static constexpr bool kAlongRows = kPointwise, kResidual = kHasResidual, kGated = false;
  static constexpr auto kBrings = warpgroup::Bringing::kItself;
  static constexpr bool Takes(WarpgroupTiles tiles) { return ((tiles == kTiles) || ...); }
  template <int /*kColumns*/>
  static constexpr int kSideBySide = kPack;
  static_assert(kManyRowsColumns == 4 * kPack);
  template <int kColumns>
  struct OfColumns {
    Pack<T, kPack> bias[kColumns / kPack];
  };
  template <int /*kColumns*/>
  using OfThread = RowsOfThread<T>;

  std::conditional_t<kHasResidual, device::TensorMap, NoMap> residual;
  void* c;
  const void* bias;  // or null
  int32_t m, n;
  bool relu;  // kNoneOrRelu
  uint8_t unused[7] = {};

  template <int kColumns>
  __device__ __forceinline__ void Bring(OfColumns<kColumns>& of, int column) const {
    const int i = static_cast<int>(threadIdx.x) % 32;
    static_assert(kColumns / kPack <= 32);
    if (i >= kColumns / kPack) return;
    const bool any = bias != nullptr && column + i * kPack < n;
    of.bias[i] = any ? LoadPack<kPack>(static_cast<const T*>(bias) + column + i * kPack) : Pack<T, kPack>{};
  }

  __device__ __forceinline__ void BringThread(RowsOfThread<T>& of, int row, int column) const {
    of.Place(c, row, column, m, n);
  }

  template <int kColumns>
  __device__ __forceinline__ void operator()(const OfColumns<kColumns>& of, const RowsOfThread<T>& to, const float* sum,
                                             int first, int /*row*/, int column,
                                             [[maybe_unused]] const unsigned char* box = nullptr) const {
    const Pack<T, kPack> term = of.bias[(first + ColumnOfThread()) / kPack];
    const Pack<T, kPack> above = Added(box, first, 0), below = Added(box, first, 8);
    Pack<uint32_t, kPack / 2> upper, lower;
#pragma unroll
    for (int i = 0; i < kPack / 2; ++i) {
      const float low = ToFloat(term.value[2 * i]), high = ToFloat(term.value[2 * i + 1]);
      upper.value[i] = Finished(sum[i * 4] + low, sum[i * 4 + 1] + high, &above.value[2 * i]);
      lower.value[i] = Finished(sum[i * 4 + 2] + low, sum[i * 4 + 3] + high, &below.value[2 * i]);
    }
    if (column >= n) return;
    if (to.has[0]) StorePack(reinterpret_cast<uint32_t*>(to.upper + first), upper);
    if (to.has[1]) StorePack(reinterpret_cast<uint32_t*>(to.upper + int64_t{n} * 8 + first), lower);
  }

 private:
  static __device__ __forceinline__ Pack<T, kPack> Added([[maybe_unused]] const unsigned char* box,
                                                         [[maybe_unused]] int first, [[maybe_unused]] int below) {
    if constexpr (kHasResidual) return ResidualOfThread<T>(box, first, below);
    return {};
  }
  __device__ __forceinline__ uint32_t Finished(float low, float high, [[maybe_unused]] const T* added) const {
    if constexpr (kHasResidual) low += ToFloat(added[0]), high += ToFloat(added[1]);
    if constexpr (kActivation == RowsActivation::kGeluErf) low = RoundedGelu<T>(low), high = RoundedGelu<T>(high);
    const uint32_t pair = device::PairOf<T>(low, high);
    return kActivation == RowsActivation::kNoneOrRelu && relu ? device::MaxOrNanOfPairs<T>(pair, 0) : pair;
  }
};

template <class Finish>
Status LaunchRows(const ManyRowsProduct& product, const WarpgroupPlan& plan, const ManyRowsPointers& at,
                  device::Stream stream) {
  Finish finish{.residual = {},
                .c = at.c,
                .bias = product.bias ? at.bias : nullptr,
                .m = static_cast<int32_t>(product.m),
                .n = static_cast<int32_t>(product.n),
                .relu = product.activation == Activation::kRelu};
  if constexpr (Finish::kResidual) {
    CUDAEP_RETURN_IF_ERROR(device::MakeTensorMap(at.residual, product.m, product.n,
                                                 static_cast<unsigned>(WarpgroupRows(plan.tiles)), &finish.residual));
  }
  // Larger tiles gain nothing by boxes of B ahead of earlier work (docs/benchmarks.md).
  const warpgroup::Constants ahead{.b = product.constant_b && IsFlat(plan.tiles),
                                   .columns = product.constant_bias || !product.bias};
  return warpgroup::Launch(plan, at.a, at.b, ahead, product.m, product.n, product.k, finish, stream);
}

// What LaunchManyRows, which checks sizes and type, calls for tiles of 64 rows, and for small ones without GELU.
Status LaunchFlatRows(const ManyRowsProduct& product, const WarpgroupPlan& plan, const ManyRowsPointers& at,
                      device::Stream stream);
Status LaunchPointwise(const ManyRowsProduct& product, const WarpgroupPlan& plan, const ManyRowsPointers& at,
                       device::Stream stream);
// Of a product that no kernel ends.
Status NoSuchEnd(const ManyRowsProduct& product, const WarpgroupPlan& plan);

}  // namespace cudaep::kernels
