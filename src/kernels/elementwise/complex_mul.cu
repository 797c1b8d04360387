#include "core/data_type_traits.h"
#include "kernels/elementwise/complex_mul.h"
#include "kernels/elementwise/elementwise.cuh"

namespace cudaep::kernels {
namespace {

template <class T>
__device__ __forceinline__ Pack<T, 2> LoadPair(const T* from, bool packed) {
  if (packed) return LoadPack<2>(from);
  return {{from[0], from[1]}};
}

template <class T>
__global__ void __launch_bounds__(kElementwiseThreads)
    ComplexMulKernel(const T* a, const T* b, T* y, bool conjugate, bool packed, const __grid_constant__ Walk<2> walk) {
  using C = ComputeType<T>;
  TriggerDependentsOfSmallGrid();
  device::GridDependencyWait();
  const uint32_t item = blockIdx.x * kElementwiseThreads + threadIdx.x;
  if (item >= walk.elems) return;
  uint32_t offset[2];
  Locate(walk, item, offset);
  const Pack<T, 2> p = LoadPair(a + 2 * static_cast<size_t>(offset[0]), packed);
  const Pack<T, 2> q = LoadPair(b + 2 * static_cast<size_t>(offset[1]), packed);
  const C p_real = Load(p.value[0]), p_imaginary = Load(p.value[1]), q_real = Load(q.value[0]);
  const C q_imaginary = conjugate ? -Load(q.value[1]) : Load(q.value[1]);
  const Pack<T, 2> product{{Store<T>(std::fma(p_real, q_real, -p_imaginary * q_imaginary)),
                            Store<T>(std::fma(p_real, q_imaginary, p_imaginary * q_real))}};
  T* const to = y + 2 * static_cast<size_t>(item);
  if (packed) return StorePack(to, product);
  to[0] = product.value[0], to[1] = product.value[1];
}

template <class T>
Status LaunchAs(bool conjugate, const T* a, const T* b, const Broadcast<2>& pairs, T* y, device::Stream stream) {
  if (pairs.elems == 0) return Status::Ok();
  if (pairs.elems > std::min(kSliceElems, index_limit)) {
    const BroadcastHalves<2> halves = SplitBroadcast(pairs);
    CUDAEP_RETURN_IF_ERROR(LaunchAs<T>(conjugate, a, b, halves.first, y, stream));
    return LaunchAs<T>(conjugate, a + 2 * halves.skip[0], b + 2 * halves.skip[1], halves.second,
                       y + 2 * halves.first.elems, stream);
  }
  Walk<2> walk{};
  walk.elems = static_cast<uint32_t>(pairs.elems);
  walk.rank = pairs.rank;
  for (int d = 0; d < pairs.rank; ++d) {
    walk.size[d] = FastDivider(static_cast<uint32_t>(pairs.size[d]));
    for (int i = 0; i < 2; ++i) walk.stride[i][d] = static_cast<uint32_t>(pairs.stride[i][d]);
  }
  constexpr size_t kPair = alignof(Pack<T, 2>);
  const bool packed = IsAligned(a, kPair) && IsAligned(b, kPair) && IsAligned(y, kPair);
  device::LaunchConfig config;
  config.grid.x = CeilDiv<uint32_t>(walk.elems, kElementwiseThreads);
  config.block.x = kElementwiseThreads;
  config.programmatic = true;
  return device::Launch(ComplexMulKernel<T>, config, stream, a, b, y, conjugate, packed, walk);
}

}  // namespace

Status LaunchComplexMul(DataType type, bool conjugate, const void* a, const void* b, const Broadcast<2>& pairs, void* y,
                        device::Stream stream) {
  return VisitType<kComplexMulTypes>(type, NotSupported("element type ", DataTypeName(type)), [&]<class T>() {
    return LaunchAs<T>(conjugate, static_cast<const T*>(a), static_cast<const T*>(b), pairs, static_cast<T*>(y),
                       stream);
  });
}

}  // namespace cudaep::kernels
