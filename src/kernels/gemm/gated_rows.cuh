// How gated products of many rows (gated_product.h) end. Included by a file for each set of tiles.
#pragma once

#include "kernels/gemm/gated_product.h"
#include "kernels/gemm/many_rows.cuh"

namespace cudaep::kernels {

// kByErf: GELU so; else SiLU, or GELU by tanh.
template <class T, bool kByErf, WarpgroupTiles... kTiles>
struct GatedFinish {
  static constexpr int kPack = kManyRowsPack;  // columns of a segment that a thread has
  using Element = T;
  static constexpr bool kAlongRows = false, kResidual = false, kGated = true;
  static constexpr auto kBrings = warpgroup::Bringing::kItself;
  static constexpr bool Takes(WarpgroupTiles tiles) { return ((tiles == kTiles) || ...); }
  template <int /*kColumns*/>
  static constexpr int kSideBySide = kPack;
  template <int kColumns>
  struct OfColumns {
    Pack<T, kPack> bias[2][kColumns / 2 / kPack];  // of the half that is activated, and the other
  };
  template <int /*kColumns*/>
  using OfThread = RowsOfThread<T>;

  warpgroup::GatedColumns gated;
  void* c;
  const void* bias;  // or null
  int32_t m, n;      // of C
  bool by_tanh;
  uint8_t unused[7] = {};  // without padding, where the simulated device might find an old pointer

  template <int kColumns>
  __device__ __forceinline__ void Bring(OfColumns<kColumns>& of, int column) const {
    constexpr int kOfHalf = kColumns / 2 / kPack;
    const int i = static_cast<int>(threadIdx.x) % 32, half = i / kOfHalf;
    static_assert(2 * kOfHalf <= 32);
    if (half > 1) return;
    const int at = column / 2 + i % kOfHalf * kPack, from = (half == 0 ? gated.first : gated.second) + at;
    const bool any = bias != nullptr && at < n;
    of.bias[half][i % kOfHalf] = any ? LoadPack<kPack>(static_cast<const T*>(bias) + from) : Pack<T, kPack>{};
  }

  __device__ __forceinline__ void BringThread(RowsOfThread<T>& of, int row, int column) const {
    of.Place(c, row, column / 2, m, n);
  }

  template <int kColumns>
  __device__ __forceinline__ void operator()(const OfColumns<kColumns>& of, const RowsOfThread<T>& to, const float* sum,
                                             const float* other, int first, int /*row*/, int column) const {
    const int place = (first + ColumnOfThread()) / kPack;
    const Pack<T, kPack> of_gate = of.bias[0][place], of_other = of.bias[1][place];
    Pack<uint32_t, kPack / 2> upper, lower;
#pragma unroll
    for (int i = 0; i < kPack / 2; ++i) {
      const auto pair = [&](int at) {
        float product[2];
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          const float x = sum[at + j] + ToFloat(of_gate.value[2 * i + j]);
          product[j] = Activated(x) * (other[at + j] + ToFloat(of_other.value[2 * i + j]));
        }
        return device::PairOf<T>(product[0], product[1]);
      };
      upper.value[i] = pair(i * 4);
      lower.value[i] = pair(i * 4 + 2);
    }
    if (column >= n) return;
    if (to.has[0]) StorePack(reinterpret_cast<uint32_t*>(to.upper + first), upper);
    if (to.has[1]) StorePack(reinterpret_cast<uint32_t*>(to.upper + int64_t{n} * 8 + first), lower);
  }

 private:
  __device__ __forceinline__ float Activated(float x) const {
    if constexpr (kByErf) return RoundedGelu<T>(x);
    return x * FastSigmoid(by_tanh ? GeluByTanh::TwoY(x) : x);
  }
};

template <class Finish>
Status LaunchGate(const GatedProduct& product, const WarpgroupPlan& plan, const GatedPointers& at,
                  device::Stream stream) {
  const auto half = static_cast<int32_t>(product.n);
  const Finish finish{.gated = {product.second ? half : 0, product.second ? 0 : half},
                      .c = at.c,
                      .bias = product.bias ? at.bias : nullptr,
                      .m = static_cast<int32_t>(product.m),
                      .n = half,
                      .by_tanh = product.activation == Activation::kGeluTanh};
  const warpgroup::Constants ahead{.b = product.constant_b && IsFlat(plan.tiles),
                                   .columns = product.constant_bias || !product.bias};
  return warpgroup::Launch(plan, at.a, at.b, ahead, product.m, 2 * product.n, product.k, finish, stream);
}

// Of tiles of 64 rows, and of more.
template <class T, bool kByErf>
using FlatGate = GatedFinish<T, kByErf, WarpgroupTiles::kFinest, WarpgroupTiles::kFlat>;
template <class T, bool kByErf>
using LargeGate = GatedFinish<T, kByErf, WarpgroupTiles::kSmall, WarpgroupTiles::kWide, WarpgroupTiles::kTurns>;

Status LaunchFlatGate(const GatedProduct& product, const WarpgroupPlan& plan, const GatedPointers& at,
                      device::Stream stream);
Status LaunchLargeGate(const GatedProduct& product, const WarpgroupPlan& plan, const GatedPointers& at,
                       device::Stream stream);

// What both files do, each for its tiles.
template <template <class, bool> class Finish>
Status LaunchGateOf(const GatedProduct& product, const WarpgroupPlan& plan, const GatedPointers& at,
                    device::Stream stream) {
  const auto launch = [&]<class T>() {
    return product.activation == Activation::kGeluErf ? LaunchGate<Finish<T, true>>(product, plan, at, stream)
                                                      : LaunchGate<Finish<T, false>>(product, plan, at, stream);
  };
  return product.type == DataType::kFloat16 ? launch.template operator()<Half>()
                                            : launch.template operator()<BFloat16>();
}

}  // namespace cudaep::kernels
