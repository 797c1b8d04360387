#include "kernels/quant/linear.cuh"
#include "kernels/quant/linear_bytes.h"
#include "kernels/quant/linear_value.cuh"

namespace cudaep::kernels {
namespace {

template <DataType type, ScaleWalk kWalk, class Wide>
__device__ __forceinline__ void StoreQuantized(const LinearCall& p, const QuadPlaces<kWalk>& places,
                                               const Wide (&quotient)[kQuadsPerThread][kQuad]) {
  QuadOf<type> quad[kQuadsPerThread];
  ForEachZeros<type>(p, places, [&](int from, const auto& zero) {
#pragma unroll
    for (int j = from; j < from + kQuadsOfScales<kWalk>; ++j) {
      if constexpr (kNarrowTypes.Contains(type)) {
        uint32_t code[kQuad];
#pragma unroll
        for (int k = 0; k < kQuad; ++k) {
          const auto value = Quantized<type>(quotient[j][k], zero[k], p.saturate);
          code[k] = static_cast<uint32_t>(value) & ((1u << kBitsOf<type>)-1);
        }
        quad[j] = PackCodes<type>(code, p.elems - places(j));
      } else {
#pragma unroll
        for (int k = 0; k < kQuad; ++k) {
          quad[j].pack.value[k] = static_cast<CppType<type>>(Quantized<type>(quotient[j][k], zero[k], p.saturate));
        }
      }
    }
  });
  StoreQuads<type>(p.y, p.elems, places, quad);
}

// Divides by the scales; the quotient is rounded. kShort: operands have at most 11 bits.
template <bool kShort, ScaleWalk kWalk, class Wide, class Rounding>
__device__ __forceinline__ void Divide(const LinearCall& p, const QuadPlaces<kWalk>& places,
                                       Wide (&value)[kQuadsPerThread][kQuad], Rounding&& rounded) {
  ForEachScales<Wide>(p, places, [&](int from, Wide(&scale)[kQuad]) {
    bool quick = std::is_same_v<Wide, float>;
#pragma unroll
    for (int k = 0; k < kQuad; ++k) {
      scale[k] = rounded(scale[k]);
      if constexpr (std::is_same_v<Wide, float>) quick = quick && QuickDivider<kShort>::InRange(scale[k]);
    }
    if (quick) {
#pragma unroll
      for (int k = 0; k < kQuad; ++k) {
        const QuickDivider<kShort> quotient(scale[k]);
#pragma unroll
        for (int j = from; j < from + kQuadsOfScales<kWalk>; ++j) value[j][k] = rounded(quotient(value[j][k]));
      }
    } else {
#pragma unroll
      for (int j = from; j < from + kQuadsOfScales<kWalk>; ++j) {
#pragma unroll
        for (int k = 0; k < kQuad; ++k) value[j][k] = rounded(value[j][k] / scale[k]);
      }
    }
  });
}

// The same where `to16` rounds all to 16 bits.
template <ScaleWalk kWalk, class Wide, class Rounding>
__device__ __forceinline__ void DivideIn16(const LinearCall& p, const QuadPlaces<kWalk>& places,
                                           Wide (&value)[kQuadsPerThread][kQuad], Rounding&& to16) {
  if (p.x_type != p.precision) {
#pragma unroll
    for (int j = 0; j < kQuadsPerThread; ++j) {
#pragma unroll
      for (int k = 0; k < kQuad; ++k) value[j][k] = to16(value[j][k]);
    }
  }
  Divide<true>(p, places, value, to16);
}

// Wide is float, or double for int32.
template <ScaleWalk kWalk, class Wide>
__global__ void __launch_bounds__(kQuadThreads) QuantizeKernel(__grid_constant__ const LinearCall p) {
  constexpr DataTypeSet kSources = std::is_same_v<Wide, float> ? kFloatTypesNoDouble : DataTypeSet(DataType::kInt32);
  TriggerDependentsOfSmallGrid();
  device::GridDependencyWait();
  const QuadPlaces<kWalk> places(p);
  Wide value[kQuadsPerThread][kQuad];
  WithType<kSources>(p.x_type, [&]<DataType type>() {
    QuadOf<type> quad[kQuadsPerThread];
    LoadQuads<type>(p.x, p.elems, places, quad);
#pragma unroll
    for (int j = 0; j < kQuadsPerThread; ++j) {
#pragma unroll
      for (int k = 0; k < kQuad; ++k) value[j][k] = static_cast<Wide>(Load(quad[j].pack.value[k]));
    }
  });
  const auto whole = [](Wide x) { return x; };
  if (p.precision == DataType::kFloat && p.short_operands) {
    Divide<true>(p, places, value, whole);
  } else if (p.precision == DataType::kFloat) {
    Divide<false>(p, places, value, whole);
  } else if (p.precision == DataType::kFloat16) {
    DivideIn16(p, places, value, [](Wide x) { return static_cast<Wide>(Load(ConvertTo<Half>(x))); });
  } else {
    DivideIn16(p, places, value, [](Wide x) { return static_cast<Wide>(Load(ConvertTo<BFloat16>(x))); });
  }
  WithType<kQuantInts | kQuantFloats>(p.y_type, [&]<DataType type>() { StoreQuantized<type>(p, places, value); });
}

}  // namespace

Status LaunchQuantize(const QuantArgs& args, device::Stream stream) {
  return ForEachSlice(args, args.y_type, [&](ScaleWalk walk, const LinearCall& p, const device::LaunchConfig& config) {
    bool launched = false;
    Status status = LaunchBytesQuantize(walk, p, config, stream, &launched);
    if (launched || !status.ok()) return status;
    auto* kernel = &QuantizeKernel<ScaleWalk::kEach, float>;
    if (args.x_type == DataType::kInt32) {
      kernel = &QuantizeKernel<ScaleWalk::kEach, double>;
    } else if (walk == ScaleWalk::kSame) {
      kernel = &QuantizeKernel<ScaleWalk::kSame, float>;
    } else if (walk == ScaleWalk::kQuad) {
      kernel = &QuantizeKernel<ScaleWalk::kQuad, float>;
    }
    return device::Launch(kernel, config, stream, p);
  });
}

}  // namespace cudaep::kernels
