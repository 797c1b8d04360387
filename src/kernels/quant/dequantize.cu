#include "kernels/elementwise/conversion.cuh"
#include "kernels/quant/linear.cuh"

namespace cudaep::kernels {
namespace {

constexpr DataTypeSet kDequantInts = kQuantInts | DataTypeSet(DataType::kInt32);

template <DataType type>
__device__ __forceinline__ auto ValueOf(const QuadOf<type>& quad, int k) {
  if constexpr (kNarrowTypes.Contains(type)) {
    return NarrowFormat<type>::Type::Decode(quad.Code(k));
  } else {
    return static_cast<int32_t>(quad.pack.value[k]);
  }
}

__device__ __forceinline__ float Difference(float x, float zero) { return x - zero; }
__device__ __forceinline__ float Difference(int32_t x, int32_t zero) {
  return static_cast<float>(static_cast<int32_t>(static_cast<uint32_t>(x) - static_cast<uint32_t>(zero)));
}

// The values of the thread's quads without their zero points.
template <DataType type, ScaleWalk kWalk>
__device__ __forceinline__ void LoadDifferences(const LinearCall& p, const ScaleNumbers<kWalk>& numbers,
                                                float (&value)[kQuadsPerThread][kQuad]) {
  QuadOf<type> quad[kQuadsPerThread];
#pragma unroll
  for (int j = 0; j < kQuadsPerThread; ++j) quad[j] = LoadQuad<type>(p.x, QuadStart(j), p.elems);
#pragma unroll
  for (int j = 0; j < kQuadsPerThread; ++j) {
#pragma unroll
    for (int k = 0; k < kQuad; ++k) {
      using Value = decltype(ValueOf<type>(quad[j], k));
      const Value zero = p.zero_point == nullptr ? Value(0) : QuantizedAt<type>(p.zero_point, numbers.At(j, k));
      value[j][k] = Difference(ValueOf<type>(quad[j], k), zero);
    }
  }
}

template <ScaleWalk kWalk>
__global__ void __launch_bounds__(kQuadThreads) DequantizeKernel(__grid_constant__ const LinearCall p) {
  TriggerDependentsOfSmallGrid();
  device::GridDependencyWait();
  const ScaleNumbers<kWalk> numbers(p);
  float value[kQuadsPerThread][kQuad];
  WithType<kDequantInts | kQuantFloats>(p.x_type, [&]<DataType type>() { LoadDifferences<type>(p, numbers, value); });
#pragma unroll
  for (int j = 0; j < kQuadsPerThread; ++j) {
#pragma unroll
    for (int k = 0; k < kQuad; ++k) value[j][k] *= ScaleAt<float>(p, numbers.At(j, k));
  }
  WithType<kFloatTypesNoDouble>(p.y_type, [&]<DataType type>() {
#pragma unroll
    for (int j = 0; j < kQuadsPerThread; ++j) {
      QuadOf<type> quad;
#pragma unroll
      for (int k = 0; k < kQuad; ++k) quad.pack.value[k] = Store<CppType<type>>(value[j][k]);
      StoreQuad<type>(p.y, QuadStart(j), p.elems, quad);
    }
  });
}

}  // namespace

Status LaunchDequantize(const QuantArgs& args, device::Stream stream) {
  return ForEachSlice(args, [&](ScaleWalk walk, const LinearCall& p, const device::LaunchConfig& config) {
    auto* kernel = walk == ScaleWalk::kOne    ? &DequantizeKernel<ScaleWalk::kOne>
                   : walk == ScaleWalk::kQuad ? &DequantizeKernel<ScaleWalk::kQuad>
                                              : &DequantizeKernel<ScaleWalk::kEach>;
    return device::Launch(kernel, config, stream, p);
  });
}

}  // namespace cudaep::kernels
