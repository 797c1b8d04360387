#include "device/pairs.h"
#include "kernels/elementwise/gelu.cuh"
#include "kernels/gemm/many_rows.h"
#include "kernels/gemm/warpgroup_product.cuh"
#include "kernels/pack.h"

namespace cudaep::kernels {
namespace {

constexpr int kPack = 8;  // columns of a segment that a thread has

template <class T, bool kGelu>
struct RowsFinish {
  using Element = T;
  static constexpr bool kTall = false, kTurnsAlone = !kGelu, kFinest = false;
  static constexpr int kSideBySide = kPack;
  static_assert(kManyRowsColumns == 4 * kSideBySide);
  template <int kColumns>
  struct OfColumns {
    Pack<T, kPack> bias[kColumns / kPack];
  };
  template <int kColumns>
  struct OfThread {
    T* upper;     // what it has of C in its first row and the tile's first segment
    bool has[2];  // whether C has this row, and the one eight below
  };

  void* c;
  const void* bias;  // or null
  int32_t m, n;

  template <int kColumns>
  __device__ __forceinline__ void Bring(OfColumns<kColumns>& of, int column) const {
    const int i = static_cast<int>(threadIdx.x) % 32;
    static_assert(kColumns / kPack <= 32);
    if (i >= kColumns / kPack) return;
    const bool any = bias != nullptr && column + i * kPack < n;
    of.bias[i] = any ? LoadPack<kPack>(static_cast<const T*>(bias) + column + i * kPack) : Pack<T, kPack>{};
  }

  template <int kColumns>
  __device__ __forceinline__ void BringThread(OfThread<kColumns>& of, int row, int column) const {
    of.upper = static_cast<T*>(c) + int64_t{row} * n + column + ColumnOfThread();
    of.has[0] = row < m;
    of.has[1] = row + 8 < m;
  }

  template <int kColumns>
  __device__ __forceinline__ void operator()(const OfColumns<kColumns>& of, const OfThread<kColumns>& to,
                                             const float* sum, int first, int /*row*/, int column) const {
    const Pack<T, kPack> term = of.bias[(first + ColumnOfThread()) / kPack];
    Pack<uint32_t, kPack / 2> upper, lower;
#pragma unroll
    for (int i = 0; i < kPack / 2; ++i) {
      const float low = ToFloat(term.value[2 * i]), high = ToFloat(term.value[2 * i + 1]);
      upper.value[i] = device::PairOf<T>(Finished(sum[i * 4] + low), Finished(sum[i * 4 + 1] + high));
      lower.value[i] = device::PairOf<T>(Finished(sum[i * 4 + 2] + low), Finished(sum[i * 4 + 3] + high));
    }
    if (column >= n) return;
    if (to.has[0]) StorePack(reinterpret_cast<uint32_t*>(to.upper + first), upper);
    if (to.has[1]) StorePack(reinterpret_cast<uint32_t*>(to.upper + int64_t{n} * 8 + first), lower);
  }

 private:
  // Of a segment.
  static __device__ __forceinline__ int ColumnOfThread() { return static_cast<int>(threadIdx.x) % 4 * kPack; }
  static __device__ __forceinline__ float Finished(float x) {
    if constexpr (kGelu) return RoundedGelu<T>(x);
    return x;
  }
};

template <class T, bool kGelu>
Status LaunchOf(const ManyRowsProduct& product, const WarpgroupPlan& plan, const ManyRowsPointers& at,
                device::Stream stream) {
  const RowsFinish<T, kGelu> finish{.c = at.c,
                                    .bias = product.bias ? at.bias : nullptr,
                                    .m = static_cast<int32_t>(product.m),
                                    .n = static_cast<int32_t>(product.n)};
  return warpgroup::Launch(plan, at.a, at.b, /*constant_b=*/false, product.m, product.n, product.k, finish, stream);
}

}  // namespace

Status LaunchManyRows(const ManyRowsProduct& product, const WarpgroupPlan& plan, const ManyRowsPointers& at,
                      device::Stream stream) {
  if (product.m == 0 || product.n == 0) return Status::Ok();
  if (product.type != DataType::kFloat16 && product.type != DataType::kBFloat16) {
    return NotSupported("a product of many rows of ", DataTypeName(product.type));
  }
  if (product.n % kManyRowsColumns != 0 || product.k <= 0 || product.k % kManyRowsPack != 0) {
    return InvalidArgument("a product of many rows, [", product.m, ',', product.k, "] by [", product.n, ',', product.k,
                           "], that is no whole packs");
  }
  const auto launch = [&]<class T>() {
    return product.gelu ? LaunchOf<T, true>(product, plan, at, stream) : LaunchOf<T, false>(product, plan, at, stream);
  };
  return product.type == DataType::kFloat16 ? launch.template operator()<Half>()
                                            : launch.template operator()<BFloat16>();
}

}  // namespace cudaep::kernels
