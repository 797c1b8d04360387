// What quantization and its inverse share: where an element's scale is, and how much of that is worked out.
#pragma once

#include <algorithm>

#include "kernels/common/quads.cuh"
#include "kernels/common/trigger.cuh"
#include "kernels/fast_divide.h"
#include "kernels/quant/linear.h"

namespace cudaep::kernels {

enum class ScaleWalk {
  kOne,   // one scale
  kQuad,  // the scales of a quad are one, or neighbours
  kEach,  // each element's is located
};

struct LinearCall {
  QuadInput x;
  QuadOutput y;
  const void *scale, *zero_point;
  DataType x_type, scale_type, y_type, precision;
  bool saturate;
  bool wide;       // element numbers that 32 bits do not hold
  uint32_t elems;  // of this launch,
  int64_t start;   // whose first element is this one
  uint32_t step;   // kQuad: between the scales of neighbours
  QuantScales scales;
  FastDivider axis, inner, block;
};

// Number of the scale of an element.
__device__ __forceinline__ int64_t ScaleOf(const LinearCall& p, int64_t element) {
  if (p.wide) {
    const auto at = static_cast<uint64_t>(p.start + element);
    const auto inner = static_cast<uint64_t>(p.scales.inner), axis = static_cast<uint64_t>(p.scales.axis);
    const uint64_t row = at / inner, outer = row / axis;
    const uint64_t block = (row - outer * axis) / static_cast<uint64_t>(p.scales.block);
    return static_cast<int64_t>(outer) * p.scales.outer_stride + static_cast<int64_t>(block) * p.scales.block_stride +
           static_cast<int64_t>(at - row * inner) * p.scales.inner_stride;
  }
  uint32_t i, a;
  const uint32_t row = p.inner.DivideWithRemainder(static_cast<uint32_t>(element), &i);
  const uint32_t outer = p.axis.DivideWithRemainder(row, &a);
  return outer * p.scales.outer_stride + p.block.Divide(a) * p.scales.block_stride + i * p.scales.inner_stride;
}

// The numbers of the scales of the thread's elements, worked out once for all types.
template <ScaleWalk kWalk>
struct ScaleNumbers {
  static constexpr int kLocated = kWalk == ScaleWalk::kEach ? kQuad : 1;  // of a quad
  int64_t number[kQuadsPerThread][kLocated];
  uint32_t step;

  __device__ __forceinline__ explicit ScaleNumbers(const LinearCall& p) : number{}, step(p.step) {
    if constexpr (kWalk != ScaleWalk::kOne) {
#pragma unroll
      for (int j = 0; j < kQuadsPerThread; ++j) {
#pragma unroll
        for (int k = 0; k < kLocated; ++k) {
          if (QuadStart(j) + k < p.elems) number[j][k] = ScaleOf(p, QuadStart(j) + k);
        }
      }
    }
  }

  // Of element k of quad j.
  __device__ __forceinline__ int64_t At(int j, int k) const {
    if constexpr (kWalk == ScaleWalk::kOne) {
      return 0;
    } else {
      return kWalk == ScaleWalk::kEach ? number[j][k % kLocated] : number[j][0] + k * step;
    }
  }
};

// In `Wide`, float or double.
template <class Wide>
__device__ __forceinline__ Wide ScaleAt(const LinearCall& p, int64_t number) {
  switch (p.scale_type) {
    case DataType::kFloat:
      return static_cast<const float*>(p.scale)[number];
    case DataType::kFloat16:
      return Load(static_cast<const Half*>(p.scale)[number]);
    case DataType::kBFloat16:
      return Load(static_cast<const BFloat16*>(p.scale)[number]);
    case DataType::kInt32:
      return static_cast<Wide>(static_cast<const int32_t*>(p.scale)[number]);
    default:
      return E8M0::Decode(static_cast<const uint8_t*>(p.scale)[number]);
  }
}

// A value of a quantized type: int32 for integers, fp32 for floats.
template <DataType type>
__device__ __forceinline__ auto QuantizedAt(const void* data, int64_t element) {
  if constexpr (kNarrowTypes.Contains(type)) {
    return NarrowFormat<type>::Type::Decode(NarrowCode<type>(data, element));
  } else {
    return static_cast<int32_t>(static_cast<const CppType<type>*>(data)[element]);
  }
}

inline void SetDividers(LinearCall& p) {
  if (p.wide) return;
  p.axis = FastDivider(static_cast<uint32_t>(p.scales.axis));
  p.inner = FastDivider(static_cast<uint32_t>(p.scales.inner));
  p.block = FastDivider(static_cast<uint32_t>(std::min(p.scales.block, p.scales.axis)));
}

// Launches of at most QuadSlice() elements; `launch` gets the walk and the call.
template <class Launcher>
Status ForEachSlice(const QuantArgs& args, Launcher&& launch) {
  const QuantScales& scales = args.scales;
  const bool rows = scales.inner % kQuad == 0;
  const bool along = scales.inner == 1 && scales.axis % kQuad == 0 &&
                     (scales.block % kQuad == 0 || (scales.block == 1 && scales.block_stride == 1));
  const ScaleWalk walk = scales.uniform() ? ScaleWalk::kOne : rows || along ? ScaleWalk::kQuad : ScaleWalk::kEach;
  const bool wide = !FitsIndex(args.elems) || args.elems > kQuadSliceElems;
  for (int64_t start = 0; start < args.elems; start += QuadSlice()) {
    const auto* const x = static_cast<const std::byte*>(args.x) + StorageBytes(args.x_type, start);
    auto* const y = static_cast<std::byte*>(args.y) + StorageBytes(args.y_type, start);
    LinearCall p{.x = MakeQuads<QuadInput>(x, args.x_type),
                 .y = MakeQuads<QuadOutput>(y, args.y_type),
                 .scale = args.scale,
                 .zero_point = args.zero_point,
                 .x_type = args.x_type,
                 .scale_type = args.scale_type,
                 .y_type = args.y_type,
                 .precision = args.precision,
                 .saturate = args.saturate,
                 .wide = wide,
                 .elems = static_cast<uint32_t>(std::min(args.elems - start, QuadSlice())),
                 .start = start,
                 .step = static_cast<uint32_t>(rows                ? scales.inner_stride
                                               : scales.block == 1 ? 1
                                                                   : 0),
                 .scales = scales};
    SetDividers(p);
    device::LaunchConfig config;
    config.grid.x = CeilDiv<uint32_t>(p.elems, kQuadBlock);
    config.block.x = kQuadThreads;
    config.programmatic = true;
    CUDAEP_RETURN_IF_ERROR(launch(walk, p, config));
  }
  return Status::Ok();
}

}  // namespace cudaep::kernels
