// The product of code_product.h by warpgroups.
#include "device/words.h"
#include "kernels/gemm/warpgroup_product.cuh"
#include "kernels/pack.h"
#include "kernels/quant/code_finish.cuh"

namespace cudaep::kernels {
namespace {

template <bool kFirst, bool kTable>
struct CodesFinish {
  using Element = int8_t;
  static constexpr bool kTall = false, kTurnsAlone = false;
  static constexpr int kSideBySide = 2;
  struct OfBlock {
    uint8_t table[256];
  };
  template <int kColumns>
  struct OfColumns {
    // A thread reads what two columns have.
    struct alignas(16) Pair {
      float factor[2], shift[2];
    };
    Pair pair[kColumns / 2];
    float bias[kColumns];
    CodePart part;
    int32_t index, first;  // of the part, and its first column
  };
  template <int kColumns>
  struct OfThread {};

  CodeFinish p;

  __device__ __forceinline__ void BringBlock(OfBlock& of) const {
    if (kTable && threadIdx.x < 256) of.table[threadIdx.x] = p.table[threadIdx.x];
  }

  template <int kColumns>
  __device__ __forceinline__ void BringThread(OfThread<kColumns>&, int /*row*/, int /*column*/) const {}

  template <int kColumns>
  __device__ __forceinline__ void Bring(OfColumns<kColumns>& of, int column) const {
    const int lane = static_cast<int>(threadIdx.x) % 32, index = column / p.part_n;
    const CodePart part = p.part[index];
    if (lane == 0) of.part = part, of.index = index, of.first = index * p.part_n;
    CodeNumbers numbers[kColumns / 32];
#pragma unroll
    for (int i = 0; i < kColumns / 32; ++i) {
      const int at = column + i * 32 + lane;
      numbers[i] = at < p.n ? CodeNumbersOf(p, at) : CodeNumbers{};
    }
#pragma unroll
    for (int i = 0; i < kColumns / 32; ++i) {
      const int place = i * 32 + lane;
      const CodeColumn of_place = CodeColumnOf<kFirst>(part, numbers[i]);
      of.pair[place / 2].factor[place % 2] = of_place.factor;
      of.pair[place / 2].shift[place % 2] = of_place.shift;
      of.bias[place] = of_place.bias;
    }
  }

  template <int kColumns>
  __device__ __forceinline__ void operator()(const OfBlock& block, const OfColumns<kColumns>& of,
                                             const OfThread<kColumns>&, const int32_t* sum, int first, int row,
                                             int column) const {
    const int quad = static_cast<int>(threadIdx.x) % 4;
    const CodePart part = of.part;
    uint32_t word[4];  // two columns of the row, and of the one eight below
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int at = first + i * 8 + quad * 2;
      const auto pair = of.pair[at / 2];
      const float bias[2] = {of.bias[at], of.bias[at + 1]};
      uint32_t code[4];
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        code[k] = CodeOf<kFirst, kTable>(part, sum[i * 4 + k], {pair.factor[k % 2], pair.shift[k % 2], bias[k % 2]},
                                         block.table);
      }
      word[i] = device::JoinBytes(code[0], code[1], code[2], code[3]);
    }
    device::TransposeQuad(word, quad);
    column += quad * 8;
    auto* const result = static_cast<uint8_t*>(p.c[of.index]);
    uint8_t* const c = result + column - of.first;
    const auto store = [&]<bool kLower>(int to) {
      if (column >= p.n || to >= p.m || result == nullptr) return;
      StorePack(reinterpret_cast<uint32_t*>(__builtin_assume_aligned(c + int64_t{to} * p.part_n, 8)),
                Pack<uint32_t, 2>{
                    {device::JoinHalves<kLower>(word[0], word[1]), device::JoinHalves<kLower>(word[2], word[3])}});
    };
    store.template operator()<false>(row);
    store.template operator()<true>(row + 8);
  }
};

template <bool kFirst, bool kTable>
Status LaunchOf(const CodeFinish& finish, const WarpgroupPlan& plan, const void* a, const void* b, int64_t k,
                device::Stream stream) {
  return warpgroup::Launch(plan, a, b, finish.m, finish.n, k, CodesFinish<kFirst, kTable>{finish}, stream);
}

}  // namespace

Status LaunchCodeProduct(const CodeFinish& finish, const WarpgroupPlan& plan, const void* a, const void* b, int64_t k,
                         device::Stream stream) {
  if (finish.m == 0 || finish.n == 0) return Status::Ok();
  const auto launch = finish.has_first != 0
                          ? (finish.table != nullptr ? LaunchOf<true, true> : LaunchOf<true, false>)
                          : (finish.table != nullptr ? LaunchOf<false, true> : LaunchOf<false, false>);
  return launch(finish, plan, a, b, k, stream);
}

}  // namespace cudaep::kernels
