#include "kernels/quant/gather_quantized.h"
#include "kernels/quant/linear.cuh"

namespace cudaep::kernels {
namespace {

constexpr int kThreads = 128;
constexpr int64_t kMostRowBlocks = 65535;

struct Call {
  GatherQuantized args;
  LinearCall linear;  // where scales are
};

__device__ __forceinline__ int64_t IndexAt(const GatherQuantized& p, int64_t at) {
  const int64_t index = p.index_type == DataType::kInt32 ? static_cast<const int32_t*>(p.indices)[at]
                                                         : static_cast<const int64_t*>(p.indices)[at];
  return index < 0 ? index + p.axis : index;
}

// One number of a narrow type, or of a byte.
template <DataType type>
__device__ __forceinline__ float NumberAt(const void* data, int64_t element) {
  if constexpr (kNarrowTypes.Contains(type)) {
    constexpr int kPerByte = 8 / kBitsOf<type>;
    const void* const byte = static_cast<const uint8_t*>(data) + element / kPerByte;
    return static_cast<float>(QuantizedAt<type>(byte, element % kPerByte));
  } else {
    return static_cast<float>(static_cast<const uint8_t*>(data)[element]);
  }
}

// Four neighbours of a row of the result to a thread.
__global__ void __launch_bounds__(kThreads) GatherQuantizedKernel(__grid_constant__ const Call call) {
  device::GridDependencyWait();
  const GatherQuantized& p = call.args;
  const int64_t first = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kQuad;
  if (first >= p.inner) return;
  for (int64_t row = blockIdx.y; row < p.outer * p.count; row += gridDim.y) {
    const int64_t outer = row / p.count, index = IndexAt(p, row - outer * p.count);
    const int64_t from = (outer * p.axis + index) * p.inner + first;
    float value[kQuad] = {};
    WithType<kGatherQuantizedTypes>(p.type, [&]<DataType type>() {
      if (index < 0 || index >= p.axis) return;
#pragma unroll
      for (int k = 0; k < kQuad; ++k) {
        if (first + k >= p.inner) continue;
        const int64_t number = ScaleOf(call.linear, from + k);
        float zero = p.default_zero;
        if (p.zero_point != nullptr) {
          const int64_t line = p.scale_row == p.zero_row ? 0 : number / p.scale_row;
          zero = NumberAt<type>(p.zero_point, number + line * (p.zero_row - p.scale_row));
        }
        value[k] = (NumberAt<type>(p.data, from + k) - zero) * ScaleAt<float>(call.linear, number);
      }
    });
    WithType<kFloatTypesNoDouble>(p.y_type, [&]<DataType type>() {
      auto* const y = static_cast<CppType<type>*>(p.y) + row * p.inner + first;
      QuadOf<type> quad;
#pragma unroll
      for (int k = 0; k < kQuad; ++k) quad.pack.value[k] = Store<CppType<type>>(value[k]);
      if (call.linear.y.aligned) {
        StorePack(y, quad.pack);
        return;
      }
#pragma unroll
      for (int k = 0; k < kQuad; ++k) {
        if (first + k < p.inner) y[k] = quad.pack.value[k];
      }
    });
  }
}

}  // namespace

Status LaunchGatherQuantized(const GatherQuantized& args, device::Stream stream) {
  const int64_t rows = args.outer * args.count;
  if (rows == 0 || args.inner == 0) return Status::Ok();
  Call call{.args = args,
            .linear = {.scale = args.scale,
                       .scale_type = args.y_type,
                       .wide = !FitsIndex(args.outer * args.axis * args.inner),
                       .scales = args.scales}};
  call.linear.y = MakeQuads<QuadOutput>(args.y, args.y_type);
  call.linear.y.aligned = call.linear.y.aligned && args.inner % kQuad == 0;
  SetDividers(call.linear);
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(CeilDiv<int64_t>(args.inner, kThreads * kQuad));
  config.grid.y = static_cast<unsigned>(std::min(rows, kMostRowBlocks));
  config.block.x = kThreads;
  config.programmatic = true;
  return device::Launch(GatherQuantizedKernel, config, stream, call);
}

}  // namespace cudaep::kernels
