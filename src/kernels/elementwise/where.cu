#include "kernels/elementwise/elementwise.cuh"
#include "kernels/elementwise/where.h"

namespace cudaep::kernels {
namespace {

struct alignas(16) Word16 {
  uint64_t low, high;
};

struct Select {
  template <class T>
  __device__ __forceinline__ T operator()(bool condition, T a, T b) const {
    return condition ? a : b;
  }
};

template <class Word>
Status LaunchWhere(const WhereArgs& args, device::Stream stream) {
  return LaunchElementwise<Select, Word, bool, Word, Word>(Select{}, {args.condition, args.a, args.b}, args.y,
                                                           *args.broadcast, stream);
}

}  // namespace

WhereKernel FindWhereKernel(size_t element_bytes) {
  switch (element_bytes) {
    case 1:
      return &LaunchWhere<uint8_t>;
    case 2:
      return &LaunchWhere<uint16_t>;
    case 4:
      return &LaunchWhere<uint32_t>;
    case 8:
      return &LaunchWhere<uint64_t>;
    case 16:
      return &LaunchWhere<Word16>;
    default:
      return nullptr;
  }
}

}  // namespace cudaep::kernels
