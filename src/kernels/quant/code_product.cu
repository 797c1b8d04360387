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
  struct OfBlock {
    uint8_t table[256];
  };
  template <int kColumns>
  struct OfColumns {
    CodeColumn column[kColumns];
    CodePart part;
    int32_t index, first;  // of the part, and its first column
  };

  CodeFinish p;

  __device__ __forceinline__ void BringBlock(OfBlock& of) const {
    if (kTable && threadIdx.x < 256) of.table[threadIdx.x] = p.table[threadIdx.x];
  }

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
    for (int i = 0; i < kColumns / 32; ++i) of.column[i * 32 + lane] = CodeColumnOf<kFirst>(part, numbers[i]);
  }

  template <int kColumns>
  __device__ __forceinline__ void operator()(const OfBlock& block, const OfColumns<kColumns>& of, const int32_t* sum,
                                             int first, int row, int column) const {
    const int quad = static_cast<int>(threadIdx.x) % 4;
    const CodePart part = of.part;
    uint32_t word[4];  // two columns of the row, and of the one eight below
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const CodeColumn low = of.column[first + i * 8 + quad * 2], high = of.column[first + i * 8 + quad * 2 + 1];
      const auto code = [&](int at, const CodeColumn& of_code) {
        return CodeOf<kFirst, kTable>(part, sum[i * 4 + at], of_code, block.table);
      };
      word[i] = device::JoinBytes(code(0, low), code(1, high), code(2, low), code(3, high));
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
