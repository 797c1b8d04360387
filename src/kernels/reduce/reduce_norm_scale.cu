// By what normalisations shift and scale elements.
#include "kernels/common/moments.cuh"
#include "kernels/reduce/reduce.cuh"
#include "kernels/reduce/reduce_families.h"

namespace cudaep::kernels {

template <class C>
__device__ __forceinline__ Moments<C> ShuffleXor(Moments<C> value, int mask) {
  return {__shfl_xor_sync(device::kFullWarp, value.count, mask), __shfl_xor_sync(device::kFullWarp, value.mean, mask),
          __shfl_xor_sync(device::kFullWarp, value.squares, mask)};
}

namespace {

// Counts are exact in fp32 up to 2^24 elements of a thread, and beyond it no more than rounded.
template <class T>
struct VarianceScale {
  using Element = T;
  using C = ComputeType<T>;
  using Acc = Moments<C>;
  using Result = NormScale<C>;
  C epsilon;
  bool deviation_epsilon;

  explicit VarianceScale(const ReduceArgs& args)
      : epsilon(static_cast<C>(args.epsilon)), deviation_epsilon(args.deviation_epsilon) {}
  __device__ __forceinline__ Acc Identity() const { return {}; }
  __device__ __forceinline__ Acc Add(Acc acc, C v, int64_t) const { return AddBatch<1>(acc, &v); }
  template <int kElems>
  __device__ __forceinline__ Acc AddBatch(Acc acc, const C* values) const {
    acc.template Add<kElems>(values, false);
    return acc;
  }
  __device__ __forceinline__ Acc Merge(Acc a, Acc b) const {
    a.Merge(b);
    return a;
  }
  __device__ __forceinline__ Result Value(Acc acc) const {
    const C variance = acc.squares / acc.count;
    return {acc.mean, C(1) / (deviation_epsilon ? std::sqrt(variance) + epsilon : std::sqrt(variance + epsilon))};
  }
};

template <class T, class Norm>
struct NormScaleOf : Norm {
  using Result = NormScale<ComputeType<T>>;
  using Norm::Norm;
  __device__ __forceinline__ Result Value(typename Norm::Acc acc) const {
    using C = ComputeType<T>;
    C norm = Norm::Value(acc);
    if constexpr (std::is_same_v<Norm, SumOfSquares<T>>) norm = std::sqrt(norm);
    return {C(0), norm == C(0) ? C(0) : C(1) / norm};
  }
};
template <class T>
using L1Scale = NormScaleOf<T, SumOfMagnitudes<T>>;
template <class T>
using L2Scale = NormScaleOf<T, SumOfSquares<T>>;

}  // namespace

ReduceKernel FindNormScaleKernel(ReduceOp op, DataType type) {
  switch (op) {
    case ReduceOp::kVarianceScale:
      return FindReduceIn<VarianceScale, ReduceOp::kVarianceScale>(type);
    case ReduceOp::kL1Scale:
      return FindReduceIn<L1Scale, ReduceOp::kL1Scale>(type);
    case ReduceOp::kL2Scale:
      return FindReduceIn<L2Scale, ReduceOp::kL2Scale>(type);
    default:
      return nullptr;
  }
}

}  // namespace cudaep::kernels
