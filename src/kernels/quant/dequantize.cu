#include "kernels/quant/linear.cuh"
#include "kernels/quant/linear_bytes.h"
#include "kernels/quant/linear_value.cuh"

namespace cudaep::kernels {
namespace {

constexpr DataTypeSet kDequantInts = kQuantInts | DataTypeSet(DataType::kInt32);

__device__ __forceinline__ float Difference(float x, float zero) { return x - zero; }
__device__ __forceinline__ float Difference(int32_t x, int32_t zero) {
  return static_cast<float>(static_cast<int32_t>(static_cast<uint32_t>(x) - static_cast<uint32_t>(zero)));
}

// The values of the thread's quads without their zero points.
template <DataType type, ScaleWalk kWalk>
__device__ __forceinline__ void LoadDifferences(const LinearCall& p, const QuadPlaces<kWalk>& places,
                                                float (&value)[kQuadsPerThread][kQuad]) {
  QuadOf<type> quad[kQuadsPerThread];
  LoadQuads<type>(p.x, p.elems, places, quad);
  ForEachZeros<type>(p, places, [&](int first, const auto& zero) {
#pragma unroll
    for (int j = first; j < first + kQuadsOfScales<kWalk>; ++j) {
#pragma unroll
      for (int k = 0; k < kQuad; ++k) {
        const auto x = QuantizedIn<type>(quad[j], k);
        if constexpr (kQuantInts.Contains(type)) {
          value[j][k] = SmallDifference(x, zero[k]);
        } else {
          value[j][k] = Difference(x, zero[k]);
        }
      }
    }
  });
}

template <ScaleWalk kWalk>
__global__ void __launch_bounds__(kQuadThreads) DequantizeKernel(__grid_constant__ const LinearCall p) {
  TriggerDependentsOfSmallGrid();
  device::GridDependencyWait();
  const QuadPlaces<kWalk> places(p);
  float value[kQuadsPerThread][kQuad];
  WithType<kDequantInts | kQuantFloats>(p.x_type, [&]<DataType type>() { LoadDifferences<type>(p, places, value); });
  ForEachScales<float>(p, places, [&](int first, const float(&scale)[kQuad]) {
#pragma unroll
    for (int j = first; j < first + kQuadsOfScales<kWalk>; ++j) {
#pragma unroll
      for (int k = 0; k < kQuad; ++k) value[j][k] *= scale[k];
    }
  });
  WithType<kFloatTypesNoDouble>(p.y_type, [&]<DataType type>() {
    QuadOf<type> quad[kQuadsPerThread];
#pragma unroll
    for (int j = 0; j < kQuadsPerThread; ++j) {
#pragma unroll
      for (int k = 0; k < kQuad; ++k) quad[j].pack.value[k] = Store<CppType<type>>(value[j][k]);
    }
    StoreQuads<type>(p.y, p.elems, places, quad);
  });
}

}  // namespace

Status LaunchDequantize(const QuantArgs& args, device::Stream stream) {
  return ForEachSlice(args, args.x_type, [&](ScaleWalk walk, const LinearCall& p, const device::LaunchConfig& config) {
    bool launched = false;
    Status status = LaunchBytesDequantize(walk, p, config, stream, &launched);
    if (launched || !status.ok()) return status;
    auto* kernel = walk == ScaleWalk::kSame   ? &DequantizeKernel<ScaleWalk::kSame>
                   : walk == ScaleWalk::kQuad ? &DequantizeKernel<ScaleWalk::kQuad>
                                              : &DequantizeKernel<ScaleWalk::kEach>;
    return device::Launch(kernel, config, stream, p);
  });
}

}  // namespace cudaep::kernels
