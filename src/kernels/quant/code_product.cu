// The product of code_product.h by warpgroups.
#include "device/words.h"
#include "kernels/gemm/warpgroup_product.cuh"
#include "kernels/pack.h"
#include "kernels/quant/code_finish.cuh"

namespace cudaep::kernels {
namespace {

// Columns of the tiles of large products, of which a thread has eight side by side: n is whole segments.
constexpr int kCodeProductWide = static_cast<int>(WarpgroupColumns(WarpgroupTiles::kWide));

template <bool kFirst, bool kTable>
struct CodesFinish {
  using Element = int8_t;
  static constexpr bool kAlongRows = false, kResidual = false, kGated = false;
  static constexpr auto kBrings = warpgroup::Bringing::kColumns;
  static constexpr bool Takes(WarpgroupTiles tiles) {
    return tiles == WarpgroupTiles::kFinest || tiles == WarpgroupTiles::kFine || tiles == WarpgroupTiles::kSmall ||
           tiles == WarpgroupTiles::kWide;
  }
  template <int kColumns>
  static constexpr int kSideBySide = kColumns == kCodeProductWide ? 8 : 2;
  template <int kColumns>
  struct OfColumns {
    // A thread reads what two columns have.
    struct alignas(16) Pair {
      float factor[2], shift[2];
    };
    Pair pair[kColumns / 2];
    float start[kColumns];
    uint8_t table[kTable ? kCodeTable : 1];
    CodeRanges ranges;
  };
  template <int kColumns>
  struct OfThread {
    uint8_t* upper;                   // what it has of C in its first row and the tile's first segment
    bool stores_upper, stores_lower;  // whether there is such a row and somebody reads it, and of the one eight below
  };

  CodeFinish p;

  template <int kColumns>
  __device__ __forceinline__ void BringThread(OfThread<kColumns>& of, int row, int column) const {
    const int index = column / p.part_n, first = static_cast<int>(threadIdx.x) % 4 * 8;
    auto* const c = static_cast<uint8_t*>(p.c[index]);
    of.upper = c + int64_t{row} * p.part_n + column - index * p.part_n + first;
    of.stores_upper = row < p.m && c != nullptr, of.stores_lower = row + 8 < p.m && c != nullptr;
  }

  template <int kColumns>
  __device__ __forceinline__ void Bring(OfColumns<kColumns>& of, int column) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const CodePart part = p.part[column / p.part_n];
    if (lane == 0) of.ranges = CodeRanges::Of(part);
    if constexpr (kTable) BringCodeTable(of.table, p.table, lane, 32);
#pragma unroll 2
    for (int place = lane; place < kColumns; place += 32) {
      const CodeColumn of_place = CodeColumnOf<kFirst>(p, part, column + device::BoxRow<kSideBySide<kColumns>>(place));
      of.pair[place / 2].factor[place % 2] = of_place.factor;
      of.pair[place / 2].shift[place % 2] = of_place.shift;
      of.start[place] = of_place.start;
    }
  }

  template <int kColumns>
  __device__ __forceinline__ void operator()(const OfColumns<kColumns>& of, const OfThread<kColumns>& to,
                                             const int32_t* sum, int first, int /*row*/, int column) const {
    const int quad = static_cast<int>(threadIdx.x) % 4;
    const CodeRanges ranges = of.ranges;
    int32_t index[warpgroup::kSegmentSums];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int place = first + i * 8 + quad * 2;
      const auto pair = of.pair[place / 2];
      const float start[2] = {of.start[place], of.start[place + 1]};
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        index[i * 4 + k] =
            IndexOf<kFirst>(ranges, sum[i * 4 + k], {pair.factor[k % 2], pair.shift[k % 2], start[k % 2]});
      }
    }
    const auto codes = [&](int a, int b, int c, int d) {
      return CodesOf<kTable>(ranges, of.table, index[a], index[b], index[c], index[d]);
    };
    Pack<uint32_t, 2> upper, lower;
    if constexpr (kSideBySide<kColumns> == 8) {
      upper = {{codes(0, 1, 4, 5), codes(8, 9, 12, 13)}}, lower = {{codes(2, 3, 6, 7), codes(10, 11, 14, 15)}};
    } else {
      uint32_t word[4];  // two columns of the row, and of the one eight below
#pragma unroll
      for (int i = 0; i < 4; ++i) word[i] = codes(i * 4, i * 4 + 1, i * 4 + 2, i * 4 + 3);
      device::TransposeQuad(word, quad);
      upper = {{device::JoinHalves<false>(word[0], word[1]), device::JoinHalves<false>(word[2], word[3])}};
      lower = {{device::JoinHalves<true>(word[0], word[1]), device::JoinHalves<true>(word[2], word[3])}};
    }
    if (column + quad * 8 >= p.n) return;
    const auto store = [](uint8_t* c, const Pack<uint32_t, 2>& pack) {
      StorePack(reinterpret_cast<uint32_t*>(__builtin_assume_aligned(c, 8)), pack);
    };
    if (to.stores_upper) store(to.upper + first, upper);
    if (to.stores_lower) store(to.upper + int64_t{8} * p.part_n + first, lower);
  }
};

template <bool kFirst, bool kTable>
Status LaunchOf(const CodeFinish& finish, const WarpgroupPlan& plan, const void* a, const void* b,
                bool constant_columns, int64_t k, device::Stream stream) {
  return warpgroup::Launch(plan, a, b, {.b = true, .columns = constant_columns}, finish.m, finish.n, k,
                           CodesFinish<kFirst, kTable>{finish}, stream);
}

}  // namespace

Status LaunchCodeProduct(const CodeFinish& finish, const WarpgroupPlan& plan, const void* a, const void* b,
                         bool constant_columns, int64_t k, device::Stream stream) {
  if (finish.m == 0 || finish.n == 0) return Status::Ok();
  const auto launch = finish.has_first != 0
                          ? (finish.table != nullptr ? LaunchOf<true, true> : LaunchOf<true, false>)
                          : (finish.table != nullptr ? LaunchOf<false, true> : LaunchOf<false, false>);
  return launch(finish, plan, a, b, constant_columns, k, stream);
}

}  // namespace cudaep::kernels
