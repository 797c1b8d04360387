#include "kernels/elementwise/clip.h"
#include "kernels/elementwise/functor_math.cuh"
#include "kernels/elementwise/functor_table.cuh"

namespace cudaep::kernels {
namespace {

// Bounds are read by every thread, once: all its elements are computed before the first is stored.
template <class T>
struct Clip {
  const T* low;
  const T* high;
  __device__ __forceinline__ ComputeType<T> operator()(ComputeType<T> x) const {
    if (low != nullptr) x = MaxOf(x, Load(*low));
    if (high != nullptr) x = MinOf(x, Load(*high));
    return x;
  }
};

template <class T>
Status LaunchClip(const ClipArgs& args, device::Stream stream) {
  const Clip<T> clip{static_cast<const T*>(args.low), static_cast<const T*>(args.high)};
  return LaunchElementwise<Clip<T>, T, T>(clip, {args.x}, args.y, FlatBroadcast<1>(args.elems), stream);
}

}  // namespace

ClipKernel FindClipKernel(DataType type) {
  return VisitType<kNumericTypes, ClipKernel>(type, nullptr, [&]<class T>() { return &LaunchClip<T>; });
}

}  // namespace cudaep::kernels
