// Two kernels for each source type, to wider types and to others; the destination is a switch inside, the same way for
// every thread. That makes 24 kernels of some short branches instead of 169 kernels, whose compile time is mostly a
// fixed cost each.
#include <algorithm>

#include "core/checked_math.h"
#include "core/data_type_traits.h"
#include "kernels/common/trigger.cuh"
#include "kernels/elementwise/cast.h"
#include "kernels/elementwise/conversion.cuh"
#include "kernels/pack.h"

namespace cudaep::kernels {
namespace {

constexpr int kCastThreads = 256;
constexpr int kCastPacksPerThread = 2;
constexpr int64_t kCastSliceElems = 1 << 30;  // indices are 32-bit

// Elements of a pack. A wider destination gets packs of half the source's size, so that its stores lie side by side.
template <class From, bool kWiden>
constexpr int kCastPack = (PackElems(sizeof(From)) < 8 ? PackElems(sizeof(From)) : 8) / (kWiden ? 2 : 1);

// One thread's part: whole packs of source elements, and the elements behind the last one, one to a thread.
template <class From, bool kWiden>
struct CastPart {
  static constexpr int kPack = kCastPack<From, kWiden>;
  static constexpr uint32_t kNone = ~0u;
  Pack<From, kPack> pack[kCastPacksPerThread];
  uint32_t first[kCastPacksPerThread];  // number of the first element; kNone for no pack
  From single[kCastPacksPerThread];
  uint32_t element[kCastPacksPerThread];  // number of the single element; kNone for none

  __device__ __forceinline__ void LoadFrom(const From* x, uint32_t elems, uint32_t packs) {
#pragma unroll
    for (int j = 0; j < kCastPacksPerThread; ++j) {
      const uint32_t item = (blockIdx.x * kCastPacksPerThread + j) * kCastThreads + threadIdx.x;
      const uint32_t behind = packs * (kPack - 1) + item;
      first[j] = item < packs ? item * kPack : kNone;
      element[j] = item >= packs && behind < elems ? behind : kNone;
      if (first[j] != kNone) pack[j] = LoadPack<kPack>(x + first[j]);
      if (element[j] != kNone) single[j] = x[behind];
    }
  }

  template <class To>
  __device__ __forceinline__ void StoreTo(void* output) const {
    if constexpr ((sizeof(To) > sizeof(From)) != kWiden) return;
    To* y = static_cast<To*>(output);
#pragma unroll
    for (int j = 0; j < kCastPacksPerThread; ++j) {
      if (first[j] != kNone) {
        Pack<To, kPack> result;
#pragma unroll
        for (int k = 0; k < kPack; ++k) result.value[k] = ConvertTo<To>(Load(pack[j].value[k]));
        StorePack(y + first[j], result);
      }
      if (element[j] != kNone) y[element[j]] = ConvertTo<To>(Load(single[j]));
    }
  }
};

template <class From, bool kWiden>
__global__ void __launch_bounds__(kCastThreads)
    ConvertElements(const From* x, void* y, DataType to, uint32_t elems, uint32_t packs) {
  TriggerDependentsOfSmallGrid();
  device::GridDependencyWait();
  CastPart<From, kWiden> part;
  part.LoadFrom(x, elems, packs);
  switch (to) {
    case DataType::kFloat:
      return part.template StoreTo<float>(y);
    case DataType::kDouble:
      return part.template StoreTo<double>(y);
    case DataType::kFloat16:
      return part.template StoreTo<Half>(y);
    case DataType::kBFloat16:
      return part.template StoreTo<BFloat16>(y);
    case DataType::kInt8:
      return part.template StoreTo<int8_t>(y);
    case DataType::kInt16:
      return part.template StoreTo<int16_t>(y);
    case DataType::kInt32:
      return part.template StoreTo<int32_t>(y);
    case DataType::kInt64:
      return part.template StoreTo<int64_t>(y);
    case DataType::kUint8:
      return part.template StoreTo<uint8_t>(y);
    case DataType::kUint16:
      return part.template StoreTo<uint16_t>(y);
    case DataType::kUint32:
      return part.template StoreTo<uint32_t>(y);
    case DataType::kUint64:
      return part.template StoreTo<uint64_t>(y);
    case DataType::kBool:
      return part.template StoreTo<bool>(y);
    default:
      return;
  }
}

template <class From, bool kWiden>
Status LaunchCastTo(const CastArgs& args, device::Stream stream) {
  constexpr int kPack = kCastPack<From, kWiden>;
  const size_t widest_bytes = kPack * std::max(sizeof(From), SizeOf(args.to));
  const size_t alignment = std::min<size_t>(kPackBytes, widest_bytes);
  const bool packed = IsAligned(args.x, alignment) && IsAligned(args.y, alignment);
  const int64_t packs = packed ? args.elems / kPack : 0;
  const int64_t items = packs + args.elems - packs * kPack;
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(CeilDiv<int64_t>(items, kCastThreads * kCastPacksPerThread));
  config.block.x = kCastThreads;
  config.programmatic = true;
  return device::Launch(ConvertElements<From, kWiden>, config, stream, static_cast<const From*>(args.x), args.y,
                        args.to, static_cast<uint32_t>(args.elems), static_cast<uint32_t>(packs));
}

template <class From>
Status LaunchCast(const CastArgs& args, device::Stream stream) {
  if (args.elems == 0) return Status::Ok();
  if (args.elems > kCastSliceElems) {
    CastArgs part = args;
    part.elems = kCastSliceElems;
    CUDAEP_RETURN_IF_ERROR(LaunchCast<From>(part, stream));
    part.x = static_cast<const From*>(args.x) + kCastSliceElems;
    part.y = static_cast<std::byte*>(args.y) + kCastSliceElems * static_cast<int64_t>(SizeOf(args.to));
    part.elems = args.elems - kCastSliceElems;
    return LaunchCast<From>(part, stream);
  }
  if constexpr (sizeof(From) < sizeof(int64_t)) {
    if (SizeOf(args.to) > sizeof(From)) return LaunchCastTo<From, true>(args, stream);
  }
  return LaunchCastTo<From, false>(args, stream);
}

}  // namespace

CastKernel FindCastKernel(DataType from) {
  return VisitType<kCastTypes, CastKernel>(from, nullptr, [&]<class From>() { return &LaunchCast<From>; });
}

}  // namespace cudaep::kernels
