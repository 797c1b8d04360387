#include "core/data_type_traits.h"
#include "kernels/common/raw_pack.cuh"
#include "kernels/elementwise/elementwise.cuh"
#include "kernels/norm/channel_value.cuh"
#include "kernels/norm/normalize.h"
#include "kernels/reduce/reduce.h"

namespace cudaep::kernels {
namespace {

constexpr int kThreads = 256;

template <class C>
struct NormalizeInputs {
  const NormScale<C>* statistics;
  const void* scale;
  const void* bias;
  DataType affine_type;
  bool swish;
  uint8_t zeros[6] = {};  // where padding could hold most of an old pointer, which the simulated device would find
};

// What is done to one element: value * factor + term.
template <class C>
struct Affine {
  C shift, factor, term;

  __device__ __forceinline__ Affine(const NormalizeInputs<C>& in, const uint32_t (&offset)[2]) {
    const NormScale<C> norm = in.statistics[offset[0]];
    shift = norm.shift;
    factor = norm.factor;
    if (in.scale != nullptr) factor *= ChannelValue<C>(in.scale, in.affine_type, offset[1]);
    term = in.bias == nullptr ? C(0) : ChannelValue<C>(in.bias, in.affine_type, offset[1]);
  }
  __device__ __forceinline__ C operator()(C value, bool swish) const {
    const C y = (value - shift) * factor + term;
    return swish ? y / (C(1) + std::exp(-y)) : y;
  }
};

// kPacks packs for each thread. Those of one thread lie kThreads apart.
template <class T, int kPack, int kPacks>
__global__ void __launch_bounds__(kThreads)
    NormalizeKernel(const T* x, T* y, const __grid_constant__ NormalizeInputs<ComputeType<T>> in,
                    const __grid_constant__ Walk<2> walk) {
  using C = ComputeType<T>;
  device::GridDependencyWait();
  const uint32_t first = blockIdx.x * (kThreads * kPacks) + threadIdx.x;
  RawPack<T, kPack> raw[kPacks];
#pragma unroll
  for (int j = 0; j < kPacks; ++j) {
    const uint32_t pack = first + j * kThreads;
    if (pack < walk.packs) raw[j] = LoadRaw<kPack>(x + static_cast<size_t>(pack) * kPack);
  }
  // Packs lie within one element of both, or take one for each element.
  const bool alike = walk.stride[0][0] == 0 && walk.stride[1][0] == 0;
#pragma unroll
  for (int j = 0; j < kPacks; ++j) {
    const uint32_t pack = first + j * kThreads;
    if (pack >= walk.packs) break;
    uint32_t offset[2];
    Locate(walk, pack * kPack, offset);
    C value[kPack];
    UnpackCompute<T, kPack>(raw[j], value);
    Affine<C> affine(in, offset);
#pragma unroll
    for (int k = 0; k < kPack; ++k) {
      if (k > 0 && !alike) {
        offset[0] += walk.stride[0][0];
        offset[1] += walk.stride[1][0];
        affine = Affine<C>(in, offset);
      }
      value[k] = affine(value[k], in.swish);
    }
    StoreWords<kPack>(y + static_cast<size_t>(pack) * kPack, PackCompute<T, kPack>(value));
  }
}

template <class T, int kPack, int kPacks>
Status LaunchVariant(const NormalizeArgs& args, const Broadcast<2>& b, device::Stream stream) {
  Walk<2> walk{};
  walk.elems = static_cast<uint32_t>(b.elems);
  walk.packs = walk.elems / kPack;
  walk.rank = b.rank;
  for (int d = 0; d < b.rank; ++d) {
    walk.size[d] = FastDivider(static_cast<uint32_t>(b.size[d]));
    for (int i = 0; i < 2; ++i) walk.stride[i][d] = static_cast<uint32_t>(b.stride[i][d]);
  }
  using C = ComputeType<T>;
  const NormalizeInputs<C> in{static_cast<const NormScale<C>*>(args.statistics), args.scale, args.bias,
                              args.affine_type, args.swish};
  device::LaunchConfig config;
  config.grid.x = CeilDiv<uint32_t>(walk.packs, kThreads * kPacks);
  config.block.x = kThreads;
  config.programmatic = true;
  return device::Launch(NormalizeKernel<T, kPack, kPacks>, config, stream, static_cast<const T*>(args.x),
                        static_cast<T*>(args.y), in, walk);
}

template <class T>
Status Launch(NormalizeArgs args, const Broadcast<2>& b, device::Stream stream) {
  if (b.elems == 0) return Status::Ok();
  if (b.elems > std::min(kSliceElems, index_limit)) {
    const BroadcastHalves<2> halves = SplitBroadcast(b);
    CUDAEP_RETURN_IF_ERROR(Launch<T>(args, halves.first, stream));
    const auto skip = [](const void* from, int64_t bytes) {
      return from == nullptr ? nullptr : static_cast<const std::byte*>(from) + bytes;
    };
    const int64_t affine_bytes = halves.skip[1] * static_cast<int64_t>(SizeOf(args.affine_type));
    args.x = static_cast<const T*>(args.x) + halves.first.elems;
    args.y = static_cast<T*>(args.y) + halves.first.elems;
    args.statistics = static_cast<const NormScale<ComputeType<T>>*>(args.statistics) + halves.skip[0];
    args.scale = skip(args.scale, affine_bytes);
    args.bias = skip(args.bias, affine_bytes);
    return Launch<T>(args, halves.second, stream);
  }
  constexpr int kPack = PackElems(sizeof(T));
  const bool packed = b.size[0] % kPack == 0 && IsAligned(args.x, kPackBytes) && IsAligned(args.y, kPackBytes);
  return packed ? LaunchVariant<T, kPack, 2>(args, b, stream) : LaunchVariant<T, 1, 4>(args, b, stream);
}

}  // namespace

Status LaunchNormalize(const NormalizeArgs& args, device::Stream stream) {
  return VisitType<kFloatTypes>(args.type, NotSupported("normalisation of ", DataTypeName(args.type)),
                                [&]<class T>() { return Launch<T>(args, *args.broadcast, stream); });
}

}  // namespace cudaep::kernels
