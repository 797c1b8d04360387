// Two kernels, by what lies between loading and storing: fp32, which holds every narrow float and what decides the
// rounding to one, or int32, which holds every narrow integer and the lowest bits that are kept of one. The types on
// both sides are switches inside, the same way for every thread.
#include <algorithm>

#include "kernels/common/quads.cuh"
#include "kernels/common/trigger.cuh"
#include "kernels/elementwise/cast_narrow.h"
#include "kernels/elementwise/conversion.cuh"

namespace cudaep::kernels {
namespace {

struct NarrowCast {
  QuadInput x;
  QuadOutput y;
  DataType from, to;
  uint32_t elems;
  NarrowRounding rounding;
};

constexpr DataTypeSet kPlainInts = kIntTypes | DataTypeSet(DataType::kBool);
constexpr DataTypeSet kEveryType = kCastTypes | kNarrowTypes;
// What is loaded to each of the two; anything can be stored from both.
template <class Wide>
constexpr DataTypeSet SourcesOf() {
  return std::is_same_v<Wide, float> ? kCastTypes | kNarrowFloats : kPlainInts | kNarrowInts;
}

// One element of a quad as Wide.
template <DataType type, class Wide>
__device__ __forceinline__ Wide Widen(const QuadOf<type>& quad, int k) {
  if constexpr (kNarrowTypes.Contains(type)) {
    return NarrowFormat<type>::Type::Decode(quad.Code(k));
  } else if constexpr (type == DataType::kDouble) {
    return RoundToOdd(quad.pack.value[k]);
  } else {
    return static_cast<Wide>(Load(quad.pack.value[k]));
  }
}

template <DataType type, class Wide>
__device__ __forceinline__ uint32_t NarrowCodeOf(Wide x, const NarrowRounding& rounding) {
  using Format = typename NarrowFormat<type>::Type;
  if constexpr (kNarrowInts.Contains(type)) {
    return Format::Encode(ConvertTo<int32_t>(x));
  } else if constexpr (type == DataType::kFloat8E8M0) {
    return Format::Encode(static_cast<float>(x), rounding);
  } else {
    return Format::Encode(static_cast<float>(x), rounding.saturate);
  }
}

template <DataType type, class Wide>
__device__ __forceinline__ QuadOf<type> NarrowQuad(const Wide (&x)[kQuad], uint32_t left,
                                                   const NarrowRounding& rounding) {
  if constexpr (kNarrowTypes.Contains(type)) {
    uint32_t code[kQuad];
#pragma unroll
    for (int k = 0; k < kQuad; ++k) code[k] = NarrowCodeOf<type>(x[k], rounding);
    return PackCodes<type>(code, left);
  } else {
    QuadOf<type> quad;
#pragma unroll
    for (int k = 0; k < kQuad; ++k) quad.pack.value[k] = ConvertTo<CppType<type>>(x[k]);
    return quad;
  }
}

template <class Wide>
__global__ void __launch_bounds__(kQuadThreads) ConvertNarrow(__grid_constant__ const NarrowCast p) {
  TriggerDependentsOfSmallGrid();
  device::GridDependencyWait();
  Wide value[kQuadsPerThread][kQuad];
  WithType<SourcesOf<Wide>()>(p.from, [&]<DataType type>() {
    QuadOf<type> quad[kQuadsPerThread];
    LoadQuads<type>(
        p.x, p.elems, [](int j) { return QuadStart(j); }, quad);
#pragma unroll
    for (int j = 0; j < kQuadsPerThread; ++j) {
#pragma unroll
      for (int k = 0; k < kQuad; ++k) value[j][k] = Widen<type, Wide>(quad[j], k);
    }
  });
  WithType<kEveryType>(p.to, [&]<DataType type>() {
    QuadOf<type> quad[kQuadsPerThread];
#pragma unroll
    for (int j = 0; j < kQuadsPerThread; ++j) {
      quad[j] = NarrowQuad<type>(value[j], p.elems - QuadStart(j), p.rounding);
    }
    StoreQuads<type>(
        p.y, p.elems, [](int j) { return QuadStart(j); }, quad);
  });
}

}  // namespace

Status LaunchNarrowCast(DataType from, const CastArgs& args, NarrowRounding rounding, device::Stream stream) {
  const bool whole = kNarrowInts.Contains(from) || (kNarrowInts.Contains(args.to) && kPlainInts.Contains(from));
  for (int64_t start = 0; start < args.elems; start += QuadSlice()) {
    const auto* const x = static_cast<const std::byte*>(args.x) + StorageBytes(from, start);
    auto* const y = static_cast<std::byte*>(args.y) + StorageBytes(args.to, start);
    const NarrowCast p{.x = MakeQuads<QuadInput>(x, from),
                       .y = MakeQuads<QuadOutput>(y, args.to),
                       .from = from,
                       .to = args.to,
                       .elems = static_cast<uint32_t>(std::min(args.elems - start, QuadSlice())),
                       .rounding = rounding};
    device::LaunchConfig config;
    config.grid.x = CeilDiv<uint32_t>(p.elems, kQuadBlock);
    config.block.x = kQuadThreads;
    config.programmatic = true;
    CUDAEP_RETURN_IF_ERROR(device::Launch(whole ? &ConvertNarrow<int32_t> : &ConvertNarrow<float>, config, stream, p));
  }
  return Status::Ok();
}

}  // namespace cudaep::kernels
