#include <algorithm>

#include "core/checked_math.h"
#include "core/data_type_traits.h"
#include "kernels/common/raw_pack.cuh"
#include "kernels/fast_divide.h"
#include "kernels/norm/lrn_damping.cuh"
#include "kernels/norm/lrn_usual.h"

namespace cudaep::kernels {
namespace {

constexpr int kThreads = 128;
constexpr int kWindow = 5, kSide = kWindow / 2;
constexpr int kAhead = kWindow;  // channels that are on their way to a thread: no registers move from one to the next
// Threads that fill a large GPU. With fewer positions channels are shared out, but no less than this many a thread,
// which reads four more.
constexpr int64_t kManyThreads = 128 * 1024, kFewestChannels = 16;

template <class C>
struct UsualLrnParameters {
  int64_t channels, inner_packs, parts, threads;
  int64_t part_channels;
  C share, bias;  // alpha / size
};

// The normalised pack of a channel, from the squares of those around it.
template <class T, int kPack, class C>
__device__ __forceinline__ RawPack<T, kPack> Damp(const RawPack<T, kPack>& own, const C (&sum)[kPack],
                                                  const UsualLrnParameters<C>& p) {
  C value[kPack];
  UnpackCompute<T, kPack>(own, value);
#pragma unroll
  for (int k = 0; k < kPack; ++k) value[k] *= Damping<T>(p.bias + p.share * sum[k]);
  return PackCompute<T, kPack>(value);
}

template <class T, int kPack, class C>
__device__ __forceinline__ void Square(const RawPack<T, kPack>& raw, C (&square)[kPack]) {
  UnpackCompute<T, kPack>(raw, square);
#pragma unroll
  for (int k = 0; k < kPack; ++k) square[k] *= square[k];
}

// Channels apart: a thread walks those of a position, or a part of them, squares and elements passing through
// registers.
template <class T, int kPack>
__global__ void __launch_bounds__(kThreads, 4)
    LrnWalkKernel(const T* x, T* y, const __grid_constant__ UsualLrnParameters<ComputeType<T>> p) {
  using C = ComputeType<T>;
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int64_t group = thread / p.inner_packs, pack = thread - group * p.inner_packs;
  const int64_t sample = group / p.parts, first = (group - sample * p.parts) * p.part_channels;
  const int64_t step = p.inner_packs * kPack, base = (sample * p.channels + first) * step + pack * kPack;
  const int count = static_cast<int>(device::Min(p.channels - first, p.part_channels));
  const int end = static_cast<int>(device::Min<int64_t>(p.channels - first, count + kSide));  // of what is read
  const T* from = x + base + kSide * step;
  T* to = y + base;
  device::GridDependencyWait();
  if (thread >= p.threads) return;
  // Channel j's square is in square[j % kWindow], its elements in own[j % kWindow] until it is written.
  RawPack<T, kPack> ahead[kAhead], own[kWindow];
  C square[kWindow][kPack];
#pragma unroll
  for (int i = -kSide; i < kSide; ++i) {
    RawPack<T, kPack>& raw = own[(i + kWindow) % kWindow];
    raw = {};
    if (i < end && (i >= 0 || first != 0)) raw = LoadRaw<kPack>(x + base + i * step);
    Square<T, kPack>(raw, square[(i + kWindow) % kWindow]);
  }
#pragma unroll
  for (int i = 0; i < kAhead; ++i, from += step) {
    ahead[i] = {};
    if (i + kSide < end) ahead[i] = LoadRaw<kPack>(from);
  }
#pragma unroll 1
  for (int channel = 0; channel < count; channel += kAhead) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (channel + i >= count) break;
      RawPack<T, kPack> coming[1] = {ahead[i]};
      KeepPacked(coming);  // lest all of them are unpacked early
      ahead[i] = {};
      if (channel + i + kAhead + kSide < end) ahead[i] = LoadRaw<kPack>(from);
      from += step;
      own[(i + kSide) % kWindow] = coming[0];
      Square<T, kPack>(coming[0], square[(i + kSide) % kWindow]);
      C sum[kPack];
#pragma unroll
      for (int k = 0; k < kPack; ++k) {
        sum[k] = (square[0][k] + square[1][k]) + (square[2][k] + square[3][k]) + square[4][k];
      }
      StoreWords<kPack>(to, Damp<T, kPack>(own[i % kWindow], sum, p));
      to += step;
    }
  }
}

// Channels side by side: a thread has a pack of them, and reads its neighbours' nearest ones.
template <class T, int kPack>
__global__ void __launch_bounds__(kThreads)
    LrnLastKernel(const T* x, T* y, const __grid_constant__ UsualLrnParameters<ComputeType<T>> p, FastDivider packs) {
  using C = ComputeType<T>;
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  uint32_t pack;
  if (p.threads < int64_t{1} << 31) {
    packs.DivideWithRemainder(static_cast<uint32_t>(thread), &pack);
  } else {
    pack = static_cast<uint32_t>(thread % packs.divisor);
  }
  const T* const from = x + thread * kPack;
  device::GridDependencyWait();
  if (thread >= p.threads) return;
  const RawPack<T, kPack> own = LoadRaw<kPack>(from);
  RawPack<T, kSide> before = {}, behind = {};
  if (pack != 0) before = LoadRaw<kSide>(from - kSide);
  if (pack + 1 != packs.divisor) behind = LoadRaw<kSide>(from + kPack);
  C square[kPack + 2 * kSide], of_own[kPack], of_side[kSide];
  Square<T, kPack>(own, of_own);
#pragma unroll
  for (int k = 0; k < kPack; ++k) square[kSide + k] = of_own[k];
  Square<T, kSide>(before, of_side);
#pragma unroll
  for (int k = 0; k < kSide; ++k) square[k] = of_side[k];
  Square<T, kSide>(behind, of_side);
#pragma unroll
  for (int k = 0; k < kSide; ++k) square[kSide + kPack + k] = of_side[k];
  C sum[kPack];
#pragma unroll
  for (int k = 0; k < kPack; ++k) {
    sum[k] = (square[k] + square[k + 1]) + (square[k + 2] + square[k + 3]) + square[k + 4];
  }
  StoreWords<kPack>(y + thread * kPack, Damp<T, kPack>(own, sum, p));
}

template <class T>
Status Launch(const LrnArgs& args, device::Stream stream) {
  using C = ComputeType<T>;
  constexpr int kPack = PackElems(sizeof(T));
  UsualLrnParameters<C> p{};
  p.channels = args.channels;
  p.share = static_cast<C>(args.alpha / static_cast<double>(args.size));
  p.bias = static_cast<C>(args.bias);
  device::LaunchConfig config;
  config.block.x = kThreads;
  config.programmatic = true;
  const auto set_threads = [&](int64_t threads) {
    p.threads = threads;
    config.grid.x = static_cast<unsigned>(CeilDiv<int64_t>(threads, kThreads));
  };
  if (args.inner == 1) {
    set_threads(args.batch * args.channels / kPack);
    const FastDivider packs(static_cast<uint32_t>(args.channels / kPack));
    return device::Launch(LrnLastKernel<T, kPack>, config, stream, static_cast<const T*>(args.x),
                          static_cast<T*>(args.y), p, packs);
  }
  p.inner_packs = args.inner / kPack;
  const int64_t positions = args.batch * p.inner_packs;
  const int64_t wanted =
      std::clamp<int64_t>(CeilDiv(kManyThreads, positions), 1, std::max<int64_t>(args.channels / kFewestChannels, 1));
  p.part_channels = CeilDiv(args.channels, wanted);
  p.parts = CeilDiv(args.channels, p.part_channels);
  set_threads(positions * p.parts);
  return device::Launch(LrnWalkKernel<T, kPack>, config, stream, static_cast<const T*>(args.x), static_cast<T*>(args.y),
                        p);
}

}  // namespace

bool IsUsualLrn(const LrnArgs& args) {
  const auto pack = static_cast<int64_t>(PackElems(SizeOf(args.type)));
  const int64_t run = args.inner == 1 ? args.channels : args.inner;
  return args.size == kWindow && HasUsualDamping(args) && run % pack == 0 && args.channels < int64_t{1} << 31 &&
         IsAligned(args.x, kPackBytes) && IsAligned(args.y, kPackBytes);
}

Status LaunchUsualLrn(const LrnArgs& args, device::Stream stream) {
  return VisitType<kFloatTypes>(args.type, NotSupported("response normalisation of ", DataTypeName(args.type)),
                                [&]<class T>() { return Launch<T>(args, stream); });
}

}  // namespace cudaep::kernels
