#include <algorithm>
#include <cmath>
#include <limits>

#include "core/checked_math.h"
#include "kernels/generate/philox.cuh"
#include "kernels/generate/random.h"
#include "kernels/pack.h"

namespace cudaep::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostBlocks = 1 << 16;

// Calls body(group, first element, elements) for groups of kRandomPack.
template <class Body>
__device__ __forceinline__ void ForEachGroup(int64_t elems, Body&& body) {
  device::GridDependencyWait();
  const int64_t groups = (elems + kRandomPack - 1) / kRandomPack, step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t g = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; g < groups; g += step) {
    const int64_t first = g * kRandomPack;
    body(static_cast<uint64_t>(g), first, static_cast<int>(device::Min<int64_t>(kRandomPack, elems - first)));
  }
}

template <class T>
__device__ __forceinline__ Pack<T, kRandomPack> LoadGroup(const T* x, int count, bool packed) {
  if (packed && count == kRandomPack) return LoadPack<kRandomPack>(x);
  Pack<T, kRandomPack> pack{};
  for (int i = 0; i < count; ++i) pack.value[i] = x[i];
  return pack;
}

template <class T>
__device__ __forceinline__ void StoreGroup(T* y, const Pack<T, kRandomPack>& pack, int count, bool packed) {
  if (packed && count == kRandomPack) return StorePack(y, pack);
  for (int i = 0; i < count; ++i) y[i] = pack.value[i];
}

template <class T, Distribution kDistribution>
__global__ void __launch_bounds__(kThreads)
    RandomKernel(RandomStream random, ComputeType<T> first, ComputeType<T> span, ComputeType<T> factor,
                 ComputeType<T> most, int64_t elems, T* y, bool packed) {
  using C = ComputeType<T>;
  ForEachGroup(elems, [&](uint64_t group, int64_t at, int count) {
    const RandomPack<C> numbers =
        kDistribution == Distribution::kNormal ? NormalPack<C>(random, group) : UniformPack<C>(random, group);
    Pack<T, kRandomPack> pack;
#pragma unroll
    for (int i = 0; i < kRandomPack; ++i) {
      const C value = std::fma(numbers.value[i], span, first) * factor;
      pack.value[i] = Store<T>(most < value ? most : value);
    }
    StoreGroup(y + at, pack, count, packed);
  });
}

template <class T, class Y>
__global__ void __launch_bounds__(kThreads)
    BernoulliKernel(RandomStream random, const T* p, Y one, int64_t elems, Y* y, bool packed) {
  using C = ComputeType<T>;
  ForEachGroup(elems, [&](uint64_t group, int64_t at, int count) {
    const RandomPack<C> numbers = UniformPack<C>(random, group);
    const Pack<T, kRandomPack> chances = LoadGroup(p + at, count, packed);
    Pack<Y, kRandomPack> pack;
#pragma unroll
    for (int i = 0; i < kRandomPack; ++i) pack.value[i] = numbers.value[i] < Load(chances.value[i]) ? one : Y(0);
    StoreGroup(y + at, pack, count, packed);
  });
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    DropoutKernel(RandomStream random, ComputeType<T> ratio, const T* x, int64_t elems, T* y, bool* mask, bool packed) {
  using C = ComputeType<T>;
  const C scale = C(1) / (C(1) - ratio);
  ForEachGroup(elems, [&](uint64_t group, int64_t at, int count) {
    const RandomPack<C> numbers = UniformPack<C>(random, group);
    Pack<T, kRandomPack> pack = LoadGroup(x + at, count, packed);
    Pack<bool, kRandomPack> kept;
#pragma unroll
    for (int i = 0; i < kRandomPack; ++i) {
      kept.value[i] = numbers.value[i] >= ratio;
      pack.value[i] = Store<T>(Load(pack.value[i]) * (kept.value[i] ? scale : C(0)));
    }
    StoreGroup(y + at, pack, count, packed);
    if (mask != nullptr) StoreGroup(mask + at, kept, count, packed);
  });
}

// The greatest number of T below `end`, so that rounding to T does not give the end of a half-open interval.
template <class T>
ComputeType<T> LastBelow(ComputeType<T> end) {
  using C = ComputeType<T>;
  if constexpr (std::is_same_v<T, C>) {
    return std::nextafter(end, -std::numeric_limits<C>::infinity());
  } else {
    T last = Store<T>(end);
    if (Load(last) < end) return Load(last);
    constexpr uint16_t kSign = 0x8000;
    if ((last.bits & ~kSign) == 0) {
      last.bits = kSign | 1;
    } else {
      last.bits = static_cast<uint16_t>((last.bits & kSign) != 0 ? last.bits + 1 : last.bits - 1);
    }
    return Load(last);
  }
}

device::LaunchConfig Config(int64_t elems) {
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(std::min(CeilDiv<int64_t>(elems, kThreads * kRandomPack), kMostBlocks));
  config.block.x = kThreads;
  config.programmatic = true;
  return config;
}

template <class T>
bool Packs(const T* pointer) {
  return IsAligned(pointer, alignof(Pack<T, kRandomPack>));
}

template <class T, class Y>
Status LaunchBernoulliAs(RandomStream random, const void* p, uint64_t one, int64_t elems, void* y,
                         device::Stream stream) {
  const auto* const from = static_cast<const T*>(p);
  auto* const to = static_cast<Y*>(y);
  return device::Launch(BernoulliKernel<T, Y>, Config(elems), stream, random, from, static_cast<Y>(one), elems, to,
                        Packs(from) && Packs(to));
}

}  // namespace

Status LaunchRandom(Distribution distribution, double first, double second, RandomStream random, DataType type,
                    int64_t elems, void* y, device::Stream stream) {
  if (elems == 0) return Status::Ok();
  return VisitType<kFloatTypes>(type, NotSupported("element type ", DataTypeName(type)), [&]<class T>() {
    using C = ComputeType<T>;
    auto* const to = static_cast<T*>(y);
    auto* const kernel = distribution == Distribution::kNormal ? &RandomKernel<T, Distribution::kNormal>
                                                               : &RandomKernel<T, Distribution::kUniform>;
    C from = static_cast<C>(first), span = static_cast<C>(second), factor = 1;
    C most = std::numeric_limits<C>::infinity();
    if (distribution == Distribution::kUniform) {
      if (from < span) most = LastBelow<T>(span);
      span -= from;
      if (!std::isfinite(span)) {  // halves of both ends have a distance
        from /= 2, span = static_cast<C>(second) / 2 - from, factor = 2;
      }
    }
    return device::Launch(kernel, Config(elems), stream, random, from, span, factor, most, elems, to, Packs(to));
  });
}

Status LaunchBernoulli(RandomStream random, DataType type, const void* p, uint64_t one, size_t width, int64_t elems,
                       void* y, device::Stream stream) {
  if (elems == 0) return Status::Ok();
  return VisitType<kFloatTypes>(type, NotSupported("element type ", DataTypeName(type)), [&]<class T>() {
    auto* const launch = width == 1   ? &LaunchBernoulliAs<T, uint8_t>
                         : width == 2 ? &LaunchBernoulliAs<T, uint16_t>
                         : width == 4 ? &LaunchBernoulliAs<T, uint32_t>
                                      : &LaunchBernoulliAs<T, uint64_t>;
    return launch(random, p, one, elems, y, stream);
  });
}

Status LaunchDropout(RandomStream random, double ratio, DataType type, const void* x, int64_t elems, void* y,
                     bool* mask, device::Stream stream) {
  if (elems == 0) return Status::Ok();
  return VisitType<kFloatTypes>(type, NotSupported("element type ", DataTypeName(type)), [&]<class T>() {
    const auto* const from = static_cast<const T*>(x);
    auto* const to = static_cast<T*>(y);
    return device::Launch(DropoutKernel<T>, Config(elems), stream, random, static_cast<ComputeType<T>>(ratio), from,
                          elems, to, mask, Packs(from) && Packs(to) && Packs(mask));
  });
}

}  // namespace cudaep::kernels
