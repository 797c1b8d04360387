// Means of codes of 8 bits.
#include <type_traits>

#include "device/words.h"
#include "kernels/quant/saturated.cuh"
#include "kernels/reduce/reduce.cuh"
#include "kernels/reduce/reduce_families.h"

namespace cudaep::kernels {
namespace {

// Codes are summed as they are; what their zero point adds comes off the whole.
template <class T>
struct CodeMean {
  using Acc = int64_t;
  using Word = uint32_t;
  using Result = T;
  float ratio, count;
  int32_t y_zero;
  int64_t of_zeros;

  explicit CodeMean(const ReduceArgs& args)
      : ratio(args.mean.ratio),
        count(static_cast<float>(args.plan->count)),
        y_zero(args.mean.y_zero),
        of_zeros(args.mean.x_zero * args.plan->count) {}
  __device__ __forceinline__ Acc Identity() const { return 0; }
  __device__ __forceinline__ Acc Add(Acc acc, T v, int64_t) const { return acc + static_cast<int32_t>(v); }
  template <int kColumns>
  __device__ __forceinline__ void AddWords(const Pack<Word, 4>& pack, Acc* acc) const {
    constexpr int kStep = kColumns == 1 ? 4 : 1;
#pragma unroll
    for (int i = 0; i < 16; i += kStep) {
      const uint32_t ones = kColumns == 1 ? 0x01010101u : 1u << i % 4 * 8;
      acc[kColumns == 1 ? 0 : i] += device::SumOfBytes<std::is_signed_v<T>>(pack.value[i / 4], ones);
    }
  }
  __device__ __forceinline__ Acc Merge(Acc a, Acc b) const { return a + b; }
  // Divided, not multiplied by 1 / count, which is rounded: means that are ties stay ties.
  __device__ __forceinline__ T Value(Acc acc) const {
    return Saturated<T>(rintf(static_cast<float>(acc - of_zeros) * ratio / count), y_zero);
  }
};

}  // namespace

ReduceKernel FindCodeKernel(ReduceOp op, DataType type) {
  return op == ReduceOp::kCodeMean ? FindReduceIn<CodeMean, ReduceOp::kCodeMean>(type) : nullptr;
}

}  // namespace cudaep::kernels
