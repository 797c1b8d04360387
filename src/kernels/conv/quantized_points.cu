// QuantizedConv whose windows are the pixels one by one: a product of all pixels and the weights, by warpgroups.
#include "kernels/conv/quantized_codes.cuh"
#include "kernels/conv/quantized_conv.cuh"
#include "kernels/gemm/warpgroup_product.cuh"
#include "kernels/pack.h"

namespace cudaep::kernels::quantized {
namespace {

template <Form kForm>
struct PointsFinish {
  using Element = int8_t;
  static constexpr bool kAlongRows = false, kResidual = false, kGated = false;
  static constexpr auto kBrings = warpgroup::Bringing::kColumns;
  static constexpr bool Takes(WarpgroupTiles tiles) {
    return tiles == WarpgroupTiles::kFine || tiles == WarpgroupTiles::kSmall || tiles == WarpgroupTiles::kTall;
  }
  template <int /*kColumns*/>
  static constexpr int kSideBySide = 8;
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
#pragma unroll 1
    for (int i = lane; i < kColumns; i += 32) of.Load(p, i, column + device::BoxRow<kSideBySide<kColumns>>(i));
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
    Pack<uint32_t, 2> upper = {}, lower = {};  // of the residual, then of the result
    if constexpr (kForm == Form::kSums) upper = of_thread.upper[first / 32], lower = of_thread.lower[first / 32];
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      // Four columns: two pairs, as boxes have them.
      const int place = (first + j * 16) / 2 + quad;
      const typename OfColumns<kColumns>::Pair pair[2] = {of.pair[place], of.pair[place + 4]};
      const typename OfColumns<kColumns>::Shift shift[2] = {of.shift[place], of.shift[place + 4]};
      const auto code = [&](uint32_t& word, int of_row) {
        const uint32_t residual = word ^ p.residual.flip * 0x01010101u;
        int32_t raised[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          raised[k] = RaisedOf<kForm>(p, sum[j * 8 + k / 2 * 4 + of_row + k % 2], pair[k / 2], shift[k / 2], k % 2,
                                      residual, k);
        }
        word = CodesOf<kForm>(p, raised[0], raised[1], raised[2], raised[3]);
      };
      code(upper.value[j], 0);
      code(lower.value[j], 2);
    }
    column += quad * 8;
    const auto store = [&](int to, const Pack<uint32_t, 2>& codes) {
      if (column >= p.conv.out_channels || to >= p.pixels) return;
      auto* const y = static_cast<uint8_t*>(p.at.y) + int64_t{to} * p.conv.out_channels + column;
      StorePack(reinterpret_cast<uint32_t*>(__builtin_assume_aligned(y, 8)), codes);
    };
    store(row, upper);
    store(row + 8, lower);
  }
};

}  // namespace

Status LaunchPoints(const Arguments& p, const WarpgroupPlan& plan, device::Stream stream) {
  const auto launch = [&](const auto& finish) {
    return warpgroup::Launch(plan, p.at.x, p.at.w, {.b = p.constant_weights != 0}, p.pixels, p.conv.out_channels,
                             p.conv.channels, finish, stream);
  };
  return p.conv.has_residual ? launch(PointsFinish<Form::kSums>{p}) : launch(PointsFinish<Form::kCodes>{p});
}

}  // namespace cudaep::kernels::quantized
