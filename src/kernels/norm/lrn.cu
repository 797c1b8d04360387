#include <algorithm>
#include <cmath>

#include "core/checked_math.h"
#include "core/data_type_traits.h"
#include "kernels/common/raw_pack.cuh"
#include "kernels/norm/lrn.h"

namespace cudaep::kernels {
namespace {

constexpr int kThreads = 128;
constexpr int kChannels = 4;  // of a thread
// The usual window and exponent have a kernel of its own, whose threads load all they need at once.
constexpr int kUsualWindow = 5, kUsualChannels = 16;

template <class C>
struct LrnParameters {
  int64_t channels, inner_packs, groups, threads;
  int64_t before, behind;  // channels of the window on either side
  C share, beta, bias;     // alpha / size
};

__device__ __forceinline__ float RoughRoot(float x) {
#if defined(__CUDA_ARCH__)
  float root;
  asm("sqrt.approx.f32 %0, %1;" : "=f"(root) : "f"(x));
  return root;
#else
  return std::sqrt(x);
#endif
}

// base^-0.75 for results of type T.
template <class T, class C>
__device__ __forceinline__ C UsualDamping(C base) {
  if constexpr (sizeof(T) == 2) {
    const float inverse_root = rsqrtf(base);
    return inverse_root * RoughRoot(inverse_root);
  } else {
    const C root = std::sqrt(base);
    return C(1) / (root * std::sqrt(root));
  }
}

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
      own[j][k] *= p.beta == C(0.75) ? UsualDamping<T>(base) : std::pow(base, -p.beta);
    }
    StoreWords<kPack>(y + base + (first + j) * step, PackCompute<T, kPack>(own[j]));
  }
}

// Windows of five, to the power of -0.75: squares pass through registers, and only those at the ends of a thread's
// channels are read twice.
template <class T, int kPack>
__global__ void __launch_bounds__(kThreads)
    UsualLrnKernel(const T* x, T* y, const __grid_constant__ LrnParameters<ComputeType<T>> p) {
  using C = ComputeType<T>;
  constexpr int kSide = kUsualWindow / 2;
  device::GridDependencyWait();
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (thread >= p.threads) return;
  const int64_t group = thread / p.inner_packs, pack = thread - group * p.inner_packs;
  const int64_t sample = group / p.groups, first = (group - sample * p.groups) * kUsualChannels;
  const int64_t step = p.inner_packs * kPack, base = (sample * p.channels + first) * step + pack * kPack;
  const int left = static_cast<int>(device::Min<int64_t>(p.channels - first, kUsualChannels + kSide));
  RawPack<T, kPack> raw[kUsualChannels + 2 * kSide];
#pragma unroll
  for (int i = 0; i < kUsualChannels + 2 * kSide; ++i) {
    const int channel = i - kSide;
    raw[i] = {};
    if (channel < left && (channel >= 0 || first != 0)) raw[i] = LoadRaw<kPack>(x + base + channel * step);
  }
  C squares[kUsualWindow][kPack];
  const auto square = [&](int i) {
    C value[kPack];
    UnpackCompute<T, kPack>(raw[i], value);
#pragma unroll
    for (int k = 0; k < kPack; ++k) squares[i % kUsualWindow][k] = value[k] * value[k];
  };
#pragma unroll
  for (int i = 0; i < kUsualWindow - 1; ++i) square(i);
#pragma unroll
  for (int j = 0; j < kUsualChannels; ++j) {
    if (j >= left) break;
    square(j + kUsualWindow - 1);
    C own[kPack];
    UnpackCompute<T, kPack>(raw[j + kSide], own);
#pragma unroll
    for (int k = 0; k < kPack; ++k) {
      C sum = 0;
#pragma unroll
      for (int i = 0; i < kUsualWindow; ++i) sum += squares[(j + i) % kUsualWindow][k];
      own[k] *= UsualDamping<T>(p.bias + p.share * sum);
    }
    StoreWords<kPack>(y + base + j * step, PackCompute<T, kPack>(own));
  }
}

template <class T, int kPack>
Status LaunchVariant(const LrnArgs& args, device::Stream stream) {
  using C = ComputeType<T>;
  LrnParameters<C> p{};
  const bool usual = kPack > 1 && args.size == kUsualWindow && args.beta == 0.75;
  p.channels = args.channels;
  p.inner_packs = args.inner / kPack;
  p.groups = CeilDiv<int64_t>(args.channels, usual ? kUsualChannels : kChannels);
  p.threads = args.batch * p.groups * p.inner_packs;
  p.before = (args.size - 1) / 2;
  p.behind = args.size - 1 - p.before;
  p.share = static_cast<C>(args.alpha / static_cast<double>(args.size));
  p.beta = static_cast<C>(args.beta);
  p.bias = static_cast<C>(args.bias);
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(CeilDiv<int64_t>(p.threads, kThreads));
  config.block.x = kThreads;
  config.programmatic = true;
  auto* kernel = LrnKernel<T, kPack>;
  if constexpr (kPack > 1) {
    if (usual) kernel = UsualLrnKernel<T, kPack>;
  }
  return device::Launch(kernel, config, stream, static_cast<const T*>(args.x), static_cast<T*>(args.y), p);
}

}  // namespace

Status LaunchLrn(const LrnArgs& args, device::Stream stream) {
  if (args.batch == 0 || args.channels == 0 || args.inner == 0) return Status::Ok();
  return VisitType<kFloatTypes>(
      args.type, NotSupported("response normalisation of ", DataTypeName(args.type)), [&]<class T>() {
        constexpr int kPack = PackElems(sizeof(T));
        const bool packed = args.inner % kPack == 0 && IsAligned(args.x, kPackBytes) && IsAligned(args.y, kPackBytes);
        return packed ? LaunchVariant<T, kPack>(args, stream) : LaunchVariant<T, 1>(args, stream);
      });
}

}  // namespace cudaep::kernels
