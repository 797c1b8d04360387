#include <algorithm>
#include <cmath>

#include "core/checked_math.h"
#include "core/data_type_traits.h"
#include "kernels/common/raw_pack.cuh"
#include "kernels/norm/lrn.h"
#include "kernels/norm/lrn_damping.cuh"
#include "kernels/norm/lrn_usual.h"

namespace cudaep::kernels {
namespace {

constexpr int kThreads = 128;
constexpr int kChannels = 4;  // of a thread

template <class C>
struct LrnParameters {
  int64_t channels, inner_packs, groups, threads;
  int64_t before, behind;  // channels of the window on either side
  C share, beta, bias;     // alpha / size
  int32_t usual;           // HasUsualDamping
};

template <class T, int kPack>
__global__ void __launch_bounds__(kThreads)
    LrnKernel(const T* x, T* y, const __grid_constant__ LrnParameters<ComputeType<T>> p) {
  using C = ComputeType<T>;
  device::GridDependencyWait();
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (thread >= p.threads) return;
  const int64_t group = thread / p.inner_packs, pack = thread - group * p.inner_packs;
  const int64_t sample = group / p.groups, first = (group - sample * p.groups) * kChannels;
  const int64_t step = p.inner_packs * kPack, base = sample * p.channels * step + pack * kPack;
  C squares[kChannels][kPack] = {}, own[kChannels][kPack] = {};
  const int64_t end = device::Min(first + kChannels + p.behind, p.channels);
#pragma unroll 2
  for (int64_t channel = device::Max<int64_t>(first - p.before, 0); channel < end; ++channel) {
    C value[kPack];
    UnpackCompute<T, kPack>(LoadRaw<kPack>(x + base + channel * step), value);
#pragma unroll
    for (int j = 0; j < kChannels; ++j) {
      const int64_t away = channel - (first + j);
      if (away < -p.before || away > p.behind) continue;
#pragma unroll
      for (int k = 0; k < kPack; ++k) {
        squares[j][k] += value[k] * value[k];
        if (away == 0) own[j][k] = value[k];
      }
    }
  }
#pragma unroll
  for (int j = 0; j < kChannels; ++j) {
    if (first + j >= p.channels) break;
#pragma unroll
    for (int k = 0; k < kPack; ++k) {
      const C base = p.bias + p.share * squares[j][k];
      own[j][k] *= p.usual ? Damping<T>(base) : std::pow(base, -p.beta);
    }
    StoreWords<kPack>(y + base + (first + j) * step, PackCompute<T, kPack>(own[j]));
  }
}

template <class T, int kPack>
Status LaunchVariant(const LrnArgs& args, device::Stream stream) {
  using C = ComputeType<T>;
  LrnParameters<C> p{};
  p.channels = args.channels;
  p.inner_packs = args.inner / kPack;
  p.groups = CeilDiv<int64_t>(args.channels, kChannels);
  p.threads = args.batch * p.groups * p.inner_packs;
  p.before = (args.size - 1) / 2;
  p.behind = args.size - 1 - p.before;
  p.share = static_cast<C>(args.alpha / static_cast<double>(args.size));
  p.beta = static_cast<C>(args.beta);
  p.bias = static_cast<C>(args.bias);
  p.usual = HasUsualDamping(args) ? 1 : 0;
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(CeilDiv<int64_t>(p.threads, kThreads));
  config.block.x = kThreads;
  config.programmatic = true;
  return device::Launch(LrnKernel<T, kPack>, config, stream, static_cast<const T*>(args.x), static_cast<T*>(args.y), p);
}

}  // namespace

Status LaunchLrn(const LrnArgs& args, device::Stream stream) {
  if (args.batch == 0 || args.channels == 0 || args.inner == 0) return Status::Ok();
  if (IsUsualLrn(args)) return LaunchUsualLrn(args, stream);
  return VisitType<kFloatTypes>(
      args.type, NotSupported("response normalisation of ", DataTypeName(args.type)), [&]<class T>() {
        constexpr int kPack = PackElems(sizeof(T));
        const bool packed = args.inner % kPack == 0 && IsAligned(args.x, kPackBytes) && IsAligned(args.y, kPackBytes);
        return packed ? LaunchVariant<T, kPack>(args, stream) : LaunchVariant<T, 1>(args, stream);
      });
}

}  // namespace cudaep::kernels
