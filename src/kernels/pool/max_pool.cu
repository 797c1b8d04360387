#include <limits>

#include "core/data_type_traits.h"
#include "kernels/pool/pool_last.h"
#include "kernels/pool/pool_rows.cuh"
#include "kernels/pool/pool_window.cuh"

namespace cudaep::kernels {
namespace {

template <class C>
__device__ __forceinline__ bool Beats(C candidate, C best) {
  if constexpr (std::is_floating_point_v<C>) {
    return candidate > best || candidate != candidate;
  } else {
    return candidate > best;
  }
}

// An offset in a plane counted with the first dimension fastest instead of the last.
__device__ __forceinline__ int64_t ColumnMajor(const PoolShape& s, int offset) {
  const int64_t i2 = offset % s.in[2], i1 = offset / s.in[2] % s.in[1], i0 = offset / s.in[2] / s.in[1];
  return i0 + s.in[0] * (i1 + s.in[1] * i2);
}

template <class T>
__global__ void __launch_bounds__(kPoolThreads)
    MaxPoolKernel(const T* x, T* y, int64_t* indices, bool column_major, __grid_constant__ const PoolArgs args) {
  using C = ComputeType<T>;
  device::GridDependencyWait();
  const uint32_t thread = blockIdx.x * kPoolThreads + threadIdx.x;
  if (thread >= args.threads) return;
  const PoolPlace at = LocatePool(args, thread);
  const T* const plane = x + at.input;
  const int64_t channels = args.shape.channels;
  int best_offset = -1;
  C best = std::numeric_limits<C>::lowest();
  VisitWindow(args.shape, at, [&](int offset) {
    const C value = Load(plane[offset * channels]);
    if (best_offset >= 0 && !Beats(value, best)) return;
    best = value;
    best_offset = offset;
  });
  y[at.output] = Store<T>(best);
  if (indices == nullptr) return;
  if (best_offset < 0) best_offset = 0;
  const int64_t row = at.plane * channels + at.channel;
  indices[row * args.out_plane + at.position] =
      row * args.in_plane + (column_major ? ColumnMajor(args.shape, best_offset) : int64_t{best_offset});
}

template <class T>
Status LaunchAs(const PoolShape& shape, bool column_major, const void* x, void* y, int64_t* indices,
                device::Stream stream) {
  return LaunchPlanes(shape, [&](const device::LaunchConfig& config, const PoolArgs& args) {
    return device::Launch(MaxPoolKernel<T>, config, stream, static_cast<const T*>(x), static_cast<T*>(y), indices,
                          column_major, args);
  });
}

}  // namespace

Status LaunchMaxPool(const PoolShape& shape, bool column_major, const void* x, void* y, int64_t* indices,
                     device::Stream stream) {
  if (indices == nullptr) {
    bool launched = false;
    const Status status = shape.channels == 1 ? LaunchMaxPoolRows(shape, x, y, stream, &launched)
                                              : LaunchMaxPoolLast(shape, x, y, stream, &launched);
    if (launched) return status;
  }
  const auto launch = VisitType<kMaxPoolTypes, decltype(&LaunchAs<float>)>(shape.type, nullptr,
                                                                           [&]<class T>() { return &LaunchAs<T>; });
  if (launch == nullptr) return NotSupported("max pooling of element type ", DataTypeName(shape.type));
  return launch(shape, column_major, x, y, indices, stream);
}

}  // namespace cudaep::kernels
