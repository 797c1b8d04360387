// What quantization and its inverse share: where an element's scale is, and how much of that is worked out.
#pragma once

#include <algorithm>

#include "kernels/common/quads.cuh"
#include "kernels/common/trigger.cuh"
#include "kernels/fast_divide.h"
#include "kernels/quant/linear.h"

namespace cudaep::kernels {

enum class ScaleWalk {
  kSame,  // a thread's quads lie under one another and have the same scales: one, or four in a row
  kQuad,  // the scales of a quad are one, or four in a row
  kEach,  // each element's is located
};
template <ScaleWalk kWalk>
inline constexpr int kQuadsOfScales = kWalk == ScaleWalk::kSame ? kQuadsPerThread : 1;  // that have the same

struct LinearCall {
  QuadInput x;
  QuadOutput y;
  const void *scale, *zero_point;
  DataType x_type, scale_type, y_type, precision;
  bool saturate;
  bool short_operands;  // x and scales have at most 11 bits
  bool one;             // scale
  bool wide;            // element numbers that 32 bits do not hold
  bool whole_quads;     // scales and zero points that lie in a row can be read four at a time
  uint32_t elems;       // of this launch,
  int64_t start;        // whose first element is this one
  uint32_t step;        // between the scales of neighbours in a quad, 1 or 0
  uint32_t pitch;       // kSame: between a thread's quads
  FastDivider columns;  // kSame: quads of a pitch
  QuantScales scales;
  FastDivider axis, inner, block;
  uint32_t outer_stride, block_stride, inner_stride;  // unless wide
};

// Number of the scale of an element.
__device__ __forceinline__ int64_t ScaleOf(const LinearCall& p, int64_t element) {
  if (p.one) return 0;
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
  return outer * p.outer_stride + p.block.Divide(a) * p.block_stride + i * p.inner_stride;
}

// Where the thread's quads begin, and the numbers of their scales: worked out once for all types.
template <ScaleWalk kWalk>
struct QuadPlaces {
  static constexpr int kLocated = kWalk == ScaleWalk::kEach ? kQuad : 1;  // of a quad
  uint32_t first, pitch;
  int64_t number[kQuadsPerThread / kQuadsOfScales<kWalk>][kLocated];

  __device__ __forceinline__ explicit QuadPlaces(const LinearCall& p) : first(QuadStart(0)), pitch(0), number{} {
    if constexpr (kWalk == ScaleWalk::kSame) {
      uint32_t column;
      const uint32_t rows = p.columns.DivideWithRemainder(blockIdx.x * kQuadThreads + threadIdx.x, &column);
      pitch = p.pitch;
      first = rows * kQuadsPerThread * pitch + column * kQuad;
      number[0][0] = ScaleOf(p, column * kQuad);
    } else {
#pragma unroll
      for (int j = 0; j < kQuadsPerThread; ++j) {
#pragma unroll
        for (int k = 0; k < kLocated; ++k) {
          const uint32_t element = (*this)(j) + k;
          if (element < p.elems) number[j][k] = ScaleOf(p, element);
        }
      }
    }
  }

  // The first element of quad j.
  __device__ __forceinline__ uint32_t operator()(int j) const {
    return kWalk == ScaleWalk::kSame ? first + j * pitch : QuadStart(j);
  }
  // Of element k of quad j.
  __device__ __forceinline__ int64_t Number(int j, int k) const { return number[j / kQuadsOfScales<kWalk>][k]; }
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
template <DataType type>
__device__ __forceinline__ auto QuantizedIn(const QuadOf<type>& quad, int k) {
  if constexpr (kNarrowTypes.Contains(type)) {
    return NarrowFormat<type>::Type::Decode(quad.Code(k));
  } else {
    return static_cast<int32_t>(quad.pack.value[k]);
  }
}

// Calls use(j, scales), float or double, for each kQuadsOfScales quads from j on. Few are read where elements share
// them or they lie in a row.
template <class Wide, ScaleWalk kWalk, class Use>
__device__ __forceinline__ void ForEachScales(const LinearCall& p, const QuadPlaces<kWalk>& places, Use&& use) {
  constexpr DataTypeSet kVectors{DataType::kFloat, DataType::kFloat16, DataType::kBFloat16};
#pragma unroll
  for (int j = 0; j < kQuadsPerThread; j += kQuadsOfScales<kWalk>) {
    Wide scale[kQuad];
    if constexpr (kWalk == ScaleWalk::kEach) {
#pragma unroll
      for (int k = 0; k < kQuad; ++k) scale[k] = ScaleAt<Wide>(p, places.Number(j, k));
    } else {
      const int64_t number = places.Number(j, 0);
      if (p.step != 0 && p.whole_quads && kVectors.Contains(p.scale_type)) {
        WithType<kVectors>(p.scale_type, [&]<DataType type>() {
          const auto quad = LoadPack<kQuad>(static_cast<const CppType<type>*>(p.scale) + number);
#pragma unroll
          for (int k = 0; k < kQuad; ++k) scale[k] = static_cast<Wide>(Load(quad.value[k]));
        });
      } else {
        scale[0] = ScaleAt<Wide>(p, number);
#pragma unroll
        for (int k = 1; k < kQuad; ++k) scale[k] = p.step != 0 ? ScaleAt<Wide>(p, number + k) : scale[0];
      }
    }
    use(j, scale);
  }
}

// The same of zero points, in the values of the quantized type; zeros where there are none.
template <DataType type, ScaleWalk kWalk, class Use>
__device__ __forceinline__ void ForEachZeros(const LinearCall& p, const QuadPlaces<kWalk>& places, Use&& use) {
  using Zero = decltype(QuantizedAt<type>(nullptr, 0));
#pragma unroll
  for (int j = 0; j < kQuadsPerThread; j += kQuadsOfScales<kWalk>) {
    Zero zero[kQuad] = {};
    if (p.zero_point != nullptr) {
      if constexpr (kWalk == ScaleWalk::kEach) {
#pragma unroll
        for (int k = 0; k < kQuad; ++k) zero[k] = QuantizedAt<type>(p.zero_point, places.Number(j, k));
      } else {
        const int64_t number = places.Number(j, 0);
        if (p.step != 0 && p.whole_quads) {
          const auto quad = LoadQuad<type>({p.zero_point, true}, static_cast<uint32_t>(number), ~0u);
#pragma unroll
          for (int k = 0; k < kQuad; ++k) zero[k] = QuantizedIn<type>(quad, k);
        } else {
          zero[0] = QuantizedAt<type>(p.zero_point, number);
#pragma unroll
          for (int k = 1; k < kQuad; ++k) {
            zero[k] = p.step != 0 ? QuantizedAt<type>(p.zero_point, number + k) : zero[0];
          }
        }
      }
    }
    use(j, zero);
  }
}

inline void SetDividers(LinearCall& p) {
  if (p.wide) return;
  p.axis = FastDivider(static_cast<uint32_t>(p.scales.axis));
  p.inner = FastDivider(static_cast<uint32_t>(p.scales.inner));
  p.block = FastDivider(static_cast<uint32_t>(std::min(p.scales.block, p.scales.axis)));
  p.outer_stride = static_cast<uint32_t>(p.scales.outer_stride);
  p.block_stride = static_cast<uint32_t>(p.scales.block_stride);
  p.inner_stride = static_cast<uint32_t>(p.scales.inner_stride);
}

// Launches of at most QuadSlice() elements; `launch` gets the walk and the call. `zero_type`: of the zero points.
template <class Launcher>
Status ForEachSlice(const QuantArgs& args, DataType zero_type, Launcher&& launch) {
  const QuantScales& scales = args.scales;
  const bool rows = scales.inner % kQuad == 0;
  const bool along = scales.inner == 1 && scales.axis % kQuad == 0 &&
                     (scales.block % kQuad == 0 || (scales.block == 1 && scales.block_stride == 1));
  // The numbers of a row of scales begin with a whole quad.
  const bool in_row = (rows ? scales.inner_stride : scales.block == 1 ? 1 : 0) == 1;
  const bool starts_whole = scales.outer_stride % kQuad == 0 && (!rows || scales.block_stride % kQuad == 0);
  constexpr DataTypeSet kShort = kFloat16Types | DataTypeSet(DataType::kFloat8E8M0);
  const bool one = scales.uniform();
  const bool wide = !FitsIndex(args.elems) || args.elems > kQuadSliceElems;
  // Scales repeat after this many elements.
  const int64_t period = scales.axis * scales.inner;
  const bool same =
      one || (!wide && (rows || along) && scales.outer_stride == 0 && args.elems >= int64_t{kQuadsPerThread} * period);
  const ScaleWalk walk = same ? ScaleWalk::kSame : rows || along ? ScaleWalk::kQuad : ScaleWalk::kEach;
  const int64_t pitch = one ? int64_t{kQuad} * kQuadThreads : same ? period : kQuad;
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
                 .short_operands = kShort.Contains(args.x_type) && kShort.Contains(args.scale_type),
                 .one = one,
                 .wide = wide,
                 .whole_quads = !wide && starts_whole && IsAligned(args.scale, kQuad * SizeOf(args.scale_type)) &&
                                MakeQuads<QuadInput>(args.zero_point, zero_type).aligned,
                 .elems = static_cast<uint32_t>(std::min(args.elems - start, QuadSlice())),
                 .start = start,
                 .step = !one && in_row ? 1u : 0u,
                 .pitch = static_cast<uint32_t>(pitch),
                 .columns = FastDivider(static_cast<uint32_t>(pitch / kQuad)),
                 .scales = scales};
    SetDividers(p);
    device::LaunchConfig config;
    const int64_t threads = same ? CeilDiv(int64_t{p.elems}, pitch * kQuadsPerThread) * (pitch / kQuad)
                                 : CeilDiv<int64_t>(p.elems, kQuad * kQuadsPerThread);
    config.grid.x = static_cast<unsigned>(CeilDiv<int64_t>(threads, kQuadThreads));
    config.block.x = kQuadThreads;
    config.programmatic = true;
    CUDAEP_RETURN_IF_ERROR(launch(walk, p, config));
  }
  return Status::Ok();
}

}  // namespace cudaep::kernels
