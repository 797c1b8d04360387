#include "core/checked_math.h"
#include "core/data_type_traits.h"
#include "device/launch.h"
#include "kernels/fast_divide.h"
#include "kernels/index_limit.h"
#include "kernels/pack.h"
#include "kernels/softmax/hardmax.h"

namespace cudaep::kernels {
namespace {

constexpr int kThreads = 256;

template <class Index>
struct HardmaxWalk {
  using Divider = std::conditional_t<sizeof(Index) == 4, FastDivider, uint64_t>;
  Divider elems_by, inner_by;
  Index elems, inner, total;

  static __device__ __forceinline__ Index Divide(Index value, const Divider& by) {
    if constexpr (sizeof(Index) == 4) {
      return by.Divide(value);
    } else {
      return value / by;
    }
  }
};

template <class T, int kPack, class Index>
__global__ void __launch_bounds__(kThreads)
    HardmaxKernel(const int64_t* positions, T* y, const __grid_constant__ HardmaxWalk<Index> walk) {
  device::GridDependencyWait();
  const Index first = (static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x) * kPack;
  if (first >= walk.total) return;
  const Index line = walk.Divide(first, walk.inner_by);
  Index outer = walk.Divide(line, walk.elems_by);
  Index index = line - outer * walk.elems, inner = first - line * walk.inner;
  Pack<T, kPack> pack;
#pragma unroll
  for (int k = 0; k < kPack; ++k) {
    const bool hit = first + k < walk.total && positions[outer * walk.inner + inner] == static_cast<int64_t>(index);
    pack.value[k] = Store<T>(hit ? ComputeType<T>(1) : ComputeType<T>(0));
    if (++inner < walk.inner) continue;
    inner = 0;
    if (++index < walk.elems) continue;
    index = 0;
    ++outer;
  }
  if (first + kPack <= walk.total) {
    StorePack(y + first, pack);
  } else {
    for (int k = 0; first + k < walk.total; ++k) y[first + k] = pack.value[k];
  }
}

template <class T, int kPack, class Index>
Status LaunchVariant(const HardmaxArgs& args, device::Stream stream) {
  using Divider = typename HardmaxWalk<Index>::Divider;
  const auto elems = static_cast<Index>(args.elems), inner = static_cast<Index>(args.inner);
  const HardmaxWalk<Index> walk{Divider(elems), Divider(inner), elems, inner,
                                static_cast<Index>(args.outer * args.elems * args.inner)};
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(CeilDiv<int64_t>(static_cast<int64_t>(walk.total), kThreads * kPack));
  config.block.x = kThreads;
  config.programmatic = true;
  return device::Launch(HardmaxKernel<T, kPack, Index>, config, stream, args.positions, static_cast<T*>(args.y), walk);
}

template <class T>
Status Launch(const HardmaxArgs& args, device::Stream stream) {
  constexpr int kPack = PackElems(sizeof(T));
  const int64_t total = args.outer * args.elems * args.inner;
  if (total == 0) return Status::Ok();
  if (!FitsIndex(total + kThreads * kPack)) return LaunchVariant<T, 1, uint64_t>(args, stream);
  return IsAligned(args.y, kPackBytes) ? LaunchVariant<T, kPack, uint32_t>(args, stream)
                                       : LaunchVariant<T, 1, uint32_t>(args, stream);
}

}  // namespace

Status LaunchHardmax(const HardmaxArgs& args, device::Stream stream) {
  return VisitType<kFloatTypes>(args.type, NotSupported("hardmax of ", DataTypeName(args.type)),
                                [&]<class T>() { return Launch<T>(args, stream); });
}

}  // namespace cudaep::kernels
