// QuantizedConv whose windows are the pixels one by one: a product of all pixels and the weights, by warpgroups.
#include "device/words.h"
#include "kernels/conv/quantized_codes.cuh"
#include "kernels/conv/quantized_conv.cuh"
#include "kernels/gemm/warpgroup_product.cuh"
#include "kernels/pack.h"

namespace cudaep::kernels::quantized {
namespace {

template <Form kForm>
struct PointsFinish {
  using Element = int8_t;
  static constexpr bool kAlongRows = false, kResidual = false, kBringsAhead = true;
  static constexpr bool Takes(WarpgroupTiles tiles) {
    return tiles == WarpgroupTiles::kFine || tiles == WarpgroupTiles::kSmall || tiles == WarpgroupTiles::kTall;
  }
  static constexpr int kSideBySide = 2;
  template <int kColumns>
  using OfColumns = Vectors<kColumns>;
  // Of the residual: eight columns of each 32, of the thread's row and the one eight below.
  template <int kColumns>
  struct OfThread {
    Pack<uint32_t, 2> upper[kColumns / 32], lower[kColumns / 32];
  };

  Arguments p;

  template <int kColumns>
  __device__ __forceinline__ void Bring(OfColumns<kColumns>& of, int column) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll 2
    for (int i = lane; i < kColumns; i += 32) of.Load(p, i, column + i);
  }
  template <int kColumns>
  __device__ __forceinline__ void BringThread(OfThread<kColumns>& of, int row, int column) const {
    if constexpr (kForm == Form::kSums) {
      const auto* const from = static_cast<const uint8_t*>(p.at.residual);
      column += static_cast<int>(threadIdx.x) % 4 * 8;
      const auto load = [&](int of_row, int of_column) {
        if (of_row >= p.pixels || of_column >= p.conv.out_channels) return Pack<uint32_t, 2>{};
        return LoadPack<2>(reinterpret_cast<const uint32_t*>(
            __builtin_assume_aligned(from + int64_t{of_row} * p.conv.out_channels + of_column, 8)));
      };
#pragma unroll
      for (int i = 0; i < kColumns / 32; ++i) {
        of.upper[i] = load(row, column + i * 32);
        of.lower[i] = load(row + 8, column + i * 32);
      }
    }
  }

  template <int kColumns>
  __device__ __forceinline__ void operator()(const OfColumns<kColumns>& of, const OfThread<kColumns>& of_thread,
                                             const int32_t* sum, int first, int row, int column) const {
    const int quad = static_cast<int>(threadIdx.x) % 4;
    uint32_t word[4] = {};  // two columns of the row, and of the one eight below
    if constexpr (kForm == Form::kSums) {
      const Pack<uint32_t, 2>&upper = of_thread.upper[first / 32], &lower = of_thread.lower[first / 32];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        word[2 * i] = device::JoinHalves<false>(upper.value[i], lower.value[i]);
        word[2 * i + 1] = device::JoinHalves<true>(upper.value[i], lower.value[i]);
      }
      device::TransposeQuad(word, quad);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int at = first + i * 8 + quad * 2;
      const auto pair = of.pair[at / 2];
      const auto shift = of.shift[at / 2];
      const uint32_t residual = word[i] ^ p.residual.flip * 0x01010101u;
      int32_t raised[4];
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        raised[k] = RaisedOf<kForm>(p, sum[i * 4 + k], pair, shift, k % 2, residual, k);
      }
      word[i] = CodesOf<kForm>(p, raised[0], raised[1], raised[2], raised[3]);
    }
    device::TransposeQuad(word, quad);
    column += quad * 8;
    const auto store = [&]<bool kLower>(int to) {
      if (column >= p.conv.out_channels || to >= p.pixels) return;
      auto* const y = static_cast<uint8_t*>(p.at.y) + int64_t{to} * p.conv.out_channels + column;
      StorePack(reinterpret_cast<uint32_t*>(__builtin_assume_aligned(y, 8)),
                Pack<uint32_t, 2>{
                    {device::JoinHalves<kLower>(word[0], word[1]), device::JoinHalves<kLower>(word[2], word[3])}});
    };
    store.template operator()<false>(row);
    store.template operator()<true>(row + 8);
  }
};

}  // namespace

Status LaunchPoints(const Arguments& p, const WarpgroupPlan& plan, device::Stream stream) {
  const auto launch = [&](const auto& finish) {
    return warpgroup::Launch(plan, p.at.x, p.at.w, p.constant_weights, p.pixels, p.conv.out_channels, p.conv.channels,
                             finish, stream);
  };
  return p.conv.has_residual ? launch(PointsFinish<Form::kSums>{p}) : launch(PointsFinish<Form::kCodes>{p});
}

}  // namespace cudaep::kernels::quantized
