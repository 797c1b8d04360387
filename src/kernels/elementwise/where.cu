#include "kernels/common/units.h"
#include "kernels/elementwise/elementwise.cuh"
#include "kernels/elementwise/where.h"

namespace cudaep::kernels {
namespace {

struct Select {
  template <class T>
  __device__ __forceinline__ T operator()(bool condition, T a, T b) const {
    return condition ? a : b;
  }
};

}  // namespace

Status LaunchWhere(size_t elem_bytes, const WhereArgs& args, device::Stream stream) {
  return VisitUnit(static_cast<int>(elem_bytes), [&]<class Unit>() {
    return LaunchElementwise<Select, Unit, bool, Unit, Unit>(Select{}, {args.condition, args.a, args.b}, args.y,
                                                             *args.broadcast, stream);
  });
}

}  // namespace cudaep::kernels
