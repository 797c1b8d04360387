#include <algorithm>

#include "device/rounded.h"
#include "kernels/common/trigger.cuh"
#include "kernels/elementwise/elementwise.cuh"
#include "kernels/quant/qlinear.h"
#include "kernels/quant/saturated.cuh"

namespace cudaep::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostRowBlocks = 65535;
constexpr int kTablePack = 16;

// Rows by grid.y; a block has the table in shared memory.
__global__ void __launch_bounds__(kThreads)
    ByteTableKernel(__grid_constant__ const ByteTable table, const uint8_t* x, uint8_t* y, int64_t rows, int64_t row,
                    int64_t y_stride, bool packed) {
  __shared__ uint8_t of[256];
  of[threadIdx.x] = table.of[threadIdx.x];
  if (gridDim.y == 1) TriggerDependentsOfSmallGrid();  // which looks at x
  device::GridDependencyWait();
  __syncthreads();
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t r = blockIdx.y; r < rows; r += gridDim.y) {
    const uint8_t* const from = x + r * row;
    uint8_t* const to = y + r * y_stride;
    if (!packed) {
      for (int64_t i = first; i < row; i += step) to[i] = of[from[i]];
      continue;
    }
    for (int64_t i = first; i < row / kTablePack; i += step) {
      Pack<uint8_t, kTablePack> pack = LoadPack<kTablePack>(from + i * kTablePack);
#pragma unroll
      for (int k = 0; k < kTablePack; ++k) pack.value[k] = of[pack.value[k]];
      StorePack(to + i * kTablePack, pack);
    }
    for (int64_t i = row / kTablePack * kTablePack + first; i < row; i += step) to[i] = of[from[i]];
  }
}

template <class T, QLinearBinary kOp>
struct OnReals {
  QLinearOperands p;
  __device__ __forceinline__ T operator()(T a, T b) const {
    const int32_t x = static_cast<int32_t>(a) - p.a_zero, z = static_cast<int32_t>(b) - p.b_zero;
    float real;  // in steps of y
    if constexpr (kOp == QLinearBinary::kMul) {
      real = device::RoundedProduct(p.a_ratio, static_cast<float>(x * z));
    } else {
      // A product and a sum would be one instruction on some devices and two on others.
      real = fmaf(p.a_ratio, static_cast<float>(x), device::RoundedProduct(p.b_ratio, static_cast<float>(z)));
    }
    return Saturated<T>(rintf(real + static_cast<float>(p.y_zero)), 0);
  }
};

template <class T>
Status LaunchBinaryAs(QLinearBinary op, const QLinearOperands& operands, const void* a, const void* b, void* y,
                      const Broadcast<2>& broadcast, device::Stream stream) {
  if (op == QLinearBinary::kAdd) {
    return LaunchElementwise<OnReals<T, QLinearBinary::kAdd>, T, T, T>({operands}, {a, b}, y, broadcast, stream);
  }
  return LaunchElementwise<OnReals<T, QLinearBinary::kMul>, T, T, T>({operands}, {a, b}, y, broadcast, stream);
}

}  // namespace

Status LaunchByteTable(const ByteTable& table, const void* x, void* y, int64_t rows, int64_t row, int64_t y_stride,
                       device::Stream stream) {
  if (rows == 0 || row == 0) return Status::Ok();
  const bool packed = IsAligned(x, kTablePack) && IsAligned(y, kTablePack) &&
                      (rows == 1 || (row % kTablePack == 0 && y_stride % kTablePack == 0));
  const int64_t items = packed ? CeilDiv<int64_t>(row, kTablePack) : row;
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(std::min<int64_t>(CeilDiv<int64_t>(items, kThreads), 1 << 20));
  config.grid.y = static_cast<unsigned>(std::min(rows, kMostRowBlocks));
  config.block.x = kThreads;
  config.programmatic = true;
  return device::Launch(ByteTableKernel, config, stream, table, static_cast<const uint8_t*>(x),
                        static_cast<uint8_t*>(y), rows, row, y_stride, packed);
}

Status LaunchQLinearBinary(QLinearBinary op, DataType type, const QLinearOperands& operands, const void* a,
                           const void* b, void* y, const Broadcast<2>& broadcast, device::Stream stream) {
  if (type == DataType::kInt8) return LaunchBinaryAs<int8_t>(op, operands, a, b, y, broadcast, stream);
  return LaunchBinaryAs<uint8_t>(op, operands, a, b, y, broadcast, stream);
}

}  // namespace cudaep::kernels
