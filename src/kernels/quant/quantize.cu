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

__device__ __forceinline__ float Nearest(float x) { return rintf(x); }
// Beyond 2^24 any integer saturates, so fp32 holds those that count.
__device__ __forceinline__ float Nearest(double x) { return static_cast<float>(rint(x)); }
__device__ __forceinline__ float AsFloat(float x) { return x; }
__device__ __forceinline__ float AsFloat(double x) { return RoundToOdd(x); }

// The integer of an integer type, the code of a float.
template <DataType type, class Wide>
__device__ __forceinline__ auto Quantized(const LinearCall& p, Wide quotient, int64_t number) {
  using ZeroPoint = decltype(QuantizedAt<type>(nullptr, 0));
  const ZeroPoint zero = p.zero_point == nullptr ? ZeroPoint(0) : QuantizedAt<type>(p.zero_point, number);
  if constexpr (kQuantInts.Contains(type)) {
    const auto [lowest, highest] = RangeOf<type>();
    // In this order NaN becomes the lowest.
    return static_cast<int32_t>(fminf(fmaxf(Nearest(quotient) + static_cast<float>(zero), lowest), highest));
  } else {
    if (zero != 0) quotient += zero;
    return NarrowFormat<type>::Type::Encode(AsFloat(quotient), p.saturate);
  }
}

template <DataType type, ScaleWalk kWalk, class Wide>
__device__ __forceinline__ void StoreQuantized(const LinearCall& p, const ScaleNumbers<kWalk>& numbers,
                                               const Wide (&quotient)[kQuadsPerThread][kQuad]) {
#pragma unroll
  for (int j = 0; j < kQuadsPerThread; ++j) {
    const uint32_t first = QuadStart(j);
    if constexpr (kNarrowTypes.Contains(type)) {
      uint32_t code[kQuad];
#pragma unroll
      for (int k = 0; k < kQuad; ++k) {
        const auto value = Quantized<type>(p, quotient[j][k], numbers.At(j, k));
        code[k] = static_cast<uint32_t>(value) & ((1u << kBitsOf<type>)-1);
      }
      StoreQuad<type>(p.y, first, p.elems, PackCodes<type>(code, p.elems - first));
    } else {
      QuadOf<type> quad;
#pragma unroll
      for (int k = 0; k < kQuad; ++k) {
        quad.pack.value[k] = static_cast<CppType<type>>(Quantized<type>(p, quotient[j][k], numbers.At(j, k)));
      }
      StoreQuad<type>(p.y, first, p.elems, quad);
    }
  }
}

// Divides by the scales; operands and quotient are rounded.
template <ScaleWalk kWalk, class Wide, class Rounding>
__device__ __forceinline__ void Divide(const LinearCall& p, const ScaleNumbers<kWalk>& numbers,
                                       Wide (&value)[kQuadsPerThread][kQuad], Rounding&& rounded) {
#pragma unroll
  for (int j = 0; j < kQuadsPerThread; ++j) {
#pragma unroll
    for (int k = 0; k < kQuad; ++k) {
      value[j][k] = rounded(rounded(value[j][k]) / rounded(ScaleAt<Wide>(p, numbers.At(j, k))));
    }
  }
}

// Wide is float, or double for int32.
template <ScaleWalk kWalk, class Wide>
__global__ void __launch_bounds__(kQuadThreads) QuantizeKernel(__grid_constant__ const LinearCall p) {
  constexpr DataTypeSet kSources = std::is_same_v<Wide, float> ? kFloatTypesNoDouble : DataTypeSet(DataType::kInt32);
  TriggerDependentsOfSmallGrid();
  device::GridDependencyWait();
  Wide value[kQuadsPerThread][kQuad];
  WithType<kSources>(p.x_type, [&]<DataType type>() {
    QuadOf<type> quad[kQuadsPerThread];
#pragma unroll
    for (int j = 0; j < kQuadsPerThread; ++j) quad[j] = LoadQuad<type>(p.x, QuadStart(j), p.elems);
#pragma unroll
    for (int j = 0; j < kQuadsPerThread; ++j) {
#pragma unroll
      for (int k = 0; k < kQuad; ++k) value[j][k] = static_cast<Wide>(Load(quad[j].pack.value[k]));
    }
  });
  const ScaleNumbers<kWalk> numbers(p);
  if (p.precision == DataType::kFloat) {
    Divide(p, numbers, value, [](Wide x) { return x; });
  } else if (p.precision == DataType::kFloat16) {
    Divide(p, numbers, value, [](Wide x) { return static_cast<Wide>(Load(ConvertTo<Half>(x))); });
  } else {
    Divide(p, numbers, value, [](Wide x) { return static_cast<Wide>(Load(ConvertTo<BFloat16>(x))); });
  }
  WithType<kQuantInts | kQuantFloats>(p.y_type, [&]<DataType type>() { StoreQuantized<type>(p, numbers, value); });
}

}  // namespace

Status LaunchQuantize(const QuantArgs& args, device::Stream stream) {
  return ForEachSlice(args, [&](ScaleWalk walk, const LinearCall& p, const device::LaunchConfig& config) {
    auto* kernel = &QuantizeKernel<ScaleWalk::kEach, float>;
    if (args.x_type == DataType::kInt32) {
      kernel = &QuantizeKernel<ScaleWalk::kEach, double>;
    } else if (walk == ScaleWalk::kOne) {
      kernel = &QuantizeKernel<ScaleWalk::kOne, float>;
    } else if (walk == ScaleWalk::kQuad) {
      kernel = &QuantizeKernel<ScaleWalk::kQuad, float>;
    }
    return device::Launch(kernel, config, stream, p);
  });
}

}  // namespace cudaep::kernels
