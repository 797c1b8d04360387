#include <algorithm>

#include "core/checked_math.h"
#include "core/data_type_traits.h"
#include "device/launch.h"
#include "kernels/attention/position_rotary.h"

namespace cudaep::kernels {
namespace {

constexpr unsigned kThreads = 256;
constexpr int64_t kHeadsOfThread = 8;

__device__ __forceinline__ int64_t StreamOf(const SectionRotary& p, int64_t pair) {
  if (p.alternating) {
    const int64_t stream = pair % 3;
    return pair < 3 * p.section[stream] ? stream : 0;
  }
  return pair < p.section[0] ? 0 : pair < p.section[0] + p.section[1] ? 1 : 2;
}

// The grid is units of all positions by groups of heads. A unit is a pair, or an element that stays.
template <class T>
__global__ void __launch_bounds__(kThreads)
    SectionRotaryKernel(const T* in, const int64_t* ids, const T* cos, const T* sin, T* out,
                        __grid_constant__ const SectionRotary p) {
  device::GridDependencyWait();
  const int64_t half = p.dim / 2, units = p.size - half, positions = p.batch * p.rows;
  const int64_t head_end = device::Min(p.heads, (blockIdx.y + 1) * kHeadsOfThread);
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < positions * units;
       i += int64_t{gridDim.x} * kThreads) {
    const int64_t position = i / units, unit = i % units, entry = position / p.rows;
    int64_t at =
        entry * p.entry_stride + position % p.rows * p.row_stride + blockIdx.y * kHeadsOfThread * p.head_stride;
    if (unit >= half) {
      at += unit + half;
      for (int64_t h = blockIdx.y * kHeadsOfThread; h < head_end; ++h, at += p.head_stride) out[at] = in[at];
      continue;
    }
    const int64_t row = ids[StreamOf(p, unit) * positions + position];
    float c = 0, s = 0;
    if (row >= 0 && row < p.cache_rows) {
      c = p.scale * Load(cos[row * half + unit]);
      s = p.scale * Load(sin[row * half + unit]);
    }
    at += p.interleaved ? 2 * unit : unit;
    const int64_t other = p.interleaved ? 1 : half;
    for (int64_t h = blockIdx.y * kHeadsOfThread; h < head_end; ++h, at += p.head_stride) {
      const float a = Load(in[at]), b = Load(in[at + other]);
      out[at] = Store<T>(a * c - b * s);
      out[at + other] = Store<T>(a * s + b * c);
    }
  }
}

// The grid is elements of all positions by groups of heads of both tensors.
__global__ void __launch_bounds__(kThreads) AngleRotaryKernel(__grid_constant__ const AngleRotary p) {
  device::GridDependencyWait();
  const int64_t plane = p.rows * p.size, elems = p.batch * plane;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < elems; i += int64_t{gridDim.x} * kThreads) {
    const float angle = p.angles[i];
    const float c = Load(Store<Half>(std::cos(angle))), s = Load(Store<Half>(std::sin(angle)));
    for (int tensor = 0; tensor < 2; ++tensor) {
      const auto *const x = static_cast<const Half*>(p.x[tensor]), *const rotated =
                                                                       static_cast<const Half*>(p.rotated[tensor]);
      auto* const out = static_cast<Half*>(p.out[tensor]);
      const int64_t end = device::Min(p.heads[tensor], (blockIdx.y + 1) * kHeadsOfThread);
      if (out == nullptr) continue;
      for (int64_t h = blockIdx.y * kHeadsOfThread; h < end; ++h) {
        const int64_t at = (i / plane * p.heads[tensor] + h) * plane + i % plane;
        out[at] = Store<Half>(Load(x[at]) * c + Load(rotated[at]) * s);
      }
    }
  }
}

Status ConfigOf(int64_t units, int64_t heads, device::LaunchConfig& config) {
  const int64_t groups = CeilDiv(heads, kHeadsOfThread);
  if (groups > 65535) return NotSupported("rotation of ", heads, " heads");
  config.grid.x = static_cast<unsigned>(std::min<int64_t>(CeilDiv<int64_t>(units, kThreads), 1 << 20));
  config.grid.y = static_cast<unsigned>(groups);
  config.block.x = kThreads;
  config.programmatic = true;
  return Status::Ok();
}

}  // namespace

Status LaunchSectionRotary(const SectionRotary& p, const void* in, const int64_t* ids, const void* cos, const void* sin,
                           void* out, device::Stream stream) {
  const int64_t units = p.batch * p.rows * (p.size - p.dim / 2);
  if (units == 0 || p.heads == 0) return Status::Ok();
  device::LaunchConfig config;
  CUDAEP_RETURN_IF_ERROR(ConfigOf(units, p.heads, config));
  return VisitType<kFloatTypesNoDouble>(p.type, NotSupported("rotation of ", DataTypeName(p.type)), [&]<class T>() {
    return device::Launch(SectionRotaryKernel<T>, config, stream, static_cast<const T*>(in), ids,
                          static_cast<const T*>(cos), static_cast<const T*>(sin), static_cast<T*>(out), p);
  });
}

Status LaunchAngleRotary(const AngleRotary& p, device::Stream stream) {
  const int64_t elems = p.batch * p.rows * p.size, heads = std::max(p.heads[0], p.heads[1]);
  if (elems == 0 || heads == 0) return Status::Ok();
  device::LaunchConfig config;
  CUDAEP_RETURN_IF_ERROR(ConfigOf(elems, heads, config));
  return device::Launch(AngleRotaryKernel, config, stream, p);
}

}  // namespace cudaep::kernels
