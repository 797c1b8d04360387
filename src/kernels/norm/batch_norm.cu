#include <cmath>

#include "core/checked_math.h"
#include "core/data_type_traits.h"
#include "device/launch.h"
#include "kernels/fast_divide.h"
#include "kernels/index_limit.h"
#include "kernels/norm/batch_norm.h"
#include "kernels/norm/channel_value.cuh"
#include "kernels/pack.h"

namespace cudaep::kernels {
namespace {

constexpr int kThreads = 256;

struct BatchNormParameters {
  const void* scale;
  const void* bias;
  const void* mean;
  const void* variance;
  DataType scale_type, statistics_type;
  uint8_t unused[6] = {};  // without padding, where the simulated device might find an old pointer
  double epsilon;
};

// Index counts packs. uint32_t: divisions by multiplication; uint64_t: any size.
template <class Index>
struct ChannelMap {
  using Divider = std::conditional_t<sizeof(Index) == 4, FastDivider, uint64_t>;
  Divider inner, channels;

  __device__ __forceinline__ Index ChannelOf(Index pack) const {
    if constexpr (sizeof(Index) == 4) {
      uint32_t channel;
      channels.DivideWithRemainder(inner.Divide(pack), &channel);
      return channel;
    } else {
      return pack / inner % channels;
    }
  }
};

template <class T, int kPack, class Index>
__global__ void __launch_bounds__(kThreads)
    BatchNormKernel(const T* x, T* y, BatchNormParameters p, ChannelMap<Index> map, Index packs) {
  using C = ComputeType<T>;
  device::GridDependencyWait();
  const Index pack = static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x;
  if (pack >= packs) return;
  const int64_t channel = static_cast<int64_t>(map.ChannelOf(pack));
  const int64_t offset = static_cast<int64_t>(pack) * kPack;
  const Pack<T, kPack> in = LoadPack<kPack>(x + offset);
  const C variance = ChannelValue<C>(p.variance, p.statistics_type, channel);
  const C factor = ChannelValue<C>(p.scale, p.scale_type, channel) / std::sqrt(variance + static_cast<C>(p.epsilon));
  const C mean = ChannelValue<C>(p.mean, p.statistics_type, channel);
  const C bias = ChannelValue<C>(p.bias, p.scale_type, channel);
  Pack<T, kPack> out;
#pragma unroll
  for (int k = 0; k < kPack; ++k) out.value[k] = Store<T>((Load(in.value[k]) - mean) * factor + bias);
  StorePack<kPack>(y + offset, out);
}

template <class T, int kPack, class Index>
Status LaunchVariant(const BatchNormArgs& args, device::Stream stream) {
  const BatchNormParameters parameters{.scale = args.scale,
                                       .bias = args.bias,
                                       .mean = args.mean,
                                       .variance = args.variance,
                                       .scale_type = args.scale_type,
                                       .statistics_type = args.statistics_type,
                                       .epsilon = args.epsilon};
  using Divider = typename ChannelMap<Index>::Divider;
  const ChannelMap<Index> map{Divider(static_cast<Index>(args.inner / kPack)),
                              Divider(static_cast<Index>(args.channels))};
  const Index packs = static_cast<Index>(args.elems / kPack);
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(CeilDiv<int64_t>(args.elems / kPack, kThreads));
  config.block.x = kThreads;
  config.programmatic = true;
  return device::Launch(BatchNormKernel<T, kPack, Index>, config, stream, static_cast<const T*>(args.x),
                        static_cast<T*>(args.y), parameters, map, packs);
}

template <class T>
Status Launch(const BatchNormArgs& args, device::Stream stream) {
  constexpr int kPack = PackElems(sizeof(T));
  const bool packs = args.inner % kPack == 0 && IsAligned(args.x, kPackBytes) && IsAligned(args.y, kPackBytes);
  if (packs && FitsIndex(args.elems / kPack)) return LaunchVariant<T, kPack, uint32_t>(args, stream);
  if (FitsIndex(args.elems)) return LaunchVariant<T, 1, uint32_t>(args, stream);
  return LaunchVariant<T, 1, uint64_t>(args, stream);
}

}  // namespace

Status LaunchBatchNorm(const BatchNormArgs& args, device::Stream stream) {
  if (args.elems == 0) return Status::Ok();
  return VisitType<kBatchNormTypes>(args.type, NotSupported("batch normalisation of ", DataTypeName(args.type)),
                                    [&]<class T>() { return Launch<T>(args, stream); });
}

}  // namespace cudaep::kernels
