#include "kernels/elementwise/conversion.cuh"
#include "kernels/quant/linear.cuh"

namespace cudaep::kernels {
namespace {

template <DataType type>
__device__ __forceinline__ constexpr std::pair<float, float> RangeOf() {
  if constexpr (kNarrowInts.Contains(type)) {
    constexpr bool kSigned = type == DataType::kInt4 || type == DataType::kInt2;
    constexpr int kBits = kBitsOf<type>;
    return {kSigned ? -(1 << (kBits - 1)) : 0, (1 << (kSigned ? kBits - 1 : kBits)) - 1};
  } else {
    return {std::numeric_limits<CppType<type>>::min(), std::numeric_limits<CppType<type>>::max()};
  }
}

__device__ __forceinline__ float AsFloat(float x) { return x; }
__device__ __forceinline__ float AsFloat(double x) { return RoundToOdd(x); }

// The integer of an integer type, the code of a float.
template <DataType type, class Wide, class Zero>
__device__ __forceinline__ auto Quantized(Wide quotient, Zero zero, bool saturate) {
  if constexpr (kQuantInts.Contains(type)) {
    // What saturates is cut off before the zero point is added; in this order NaN becomes the lowest. A fp32 between
    // 2^23 and 2^24 has its integer, rounded to nearest, in its last bits.
    constexpr float kMiddle = 0x1.8p23f;
    const auto [lowest, highest] = RangeOf<type>();
    const Wide low = static_cast<Wide>(lowest - static_cast<float>(zero));
    const Wide high = static_cast<Wide>(highest - static_cast<float>(zero));
    Wide cut = std::fmin(std::fmax(quotient, low), high);
    if constexpr (std::is_same_v<Wide, double>) cut = rint(cut);
    return std::bit_cast<int32_t>(static_cast<float>(cut) + kMiddle) + (zero - std::bit_cast<int32_t>(kMiddle));
  } else {
    if (zero != 0) quotient += zero;
    return NarrowFormat<type>::Type::Encode(AsFloat(quotient), saturate);
  }
}

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

// Quotients by one scale, without the tests and branches of a division.
//
// Source of the steps: P. Markstein, "Computation of elementary functions on the IBM RISC System/6000 processor", IBM
// Journal of Research and Development 34, 1990: two corrections by the exact remainder round correctly where nothing
// underflows, which scales in InRange() guarantee for quotients that are not rounded to zero afterwards. Of operands
// with at most 11 bits one is enough: such a quotient is a fp32, or at least 2^-12 ulp away from where rounding
// changes, and the correction's error is below 2^-20 ulp.
template <bool kShort>
struct QuickDivider {
  float scale, inverse;

  static __device__ __forceinline__ bool InRange(float scale) {
    return std::fabs(scale) >= 0x1p-60f && std::fabs(scale) <= 0x1p60f;
  }
  __device__ __forceinline__ explicit QuickDivider(float by) : scale(by) {
#if defined(__CUDA_ARCH__)
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(by));
#else
    inverse = 1.0f / by;
#endif
    inverse = fmaf(fmaf(-inverse, scale, 1.0f), inverse, inverse);
  }
  __device__ __forceinline__ float operator()(float x) const {
    const float first = x * inverse;
    float quotient = fmaf(fmaf(-first, scale, x), inverse, first);
    if constexpr (!kShort) quotient = fmaf(fmaf(-quotient, scale, x), inverse, quotient);
    // What saturates anyway may be infinite, whose remainder is no number. A zero keeps its sign.
    return std::fabs(first) < 0x1p20f ? std::copysign(quotient, first) : first;
  }
};

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
