#include <algorithm>
#include <bit>

#include "core/checked_math.h"
#include "core/data_type_traits.h"
#include "device/launch.h"
#include "kernels/pack.h"
#include "kernels/quant/matmul_nbits.h"

namespace cudaep::kernels {
namespace {

constexpr int kColumns = 32;  // of a block, one a lane
constexpr int kSlices = 8;    // of the inner dimension, one a warp
constexpr int kRows = 4;      // of a block
constexpr int64_t kMostRowBlocks = 65535;

struct Arguments {
  MatMulNBitsPointers at;
  int64_t m, n, k;
  int64_t words, column_stride, word_stride;
  int64_t log_block, blocks;
  int64_t zero_point, zero_point_bytes;
  int64_t aligned;
};

__device__ __forceinline__ uint32_t LoadWord(const uint8_t* b, bool aligned) {
  if (aligned) return *reinterpret_cast<const uint32_t*>(b);
  return b[0] | static_cast<uint32_t>(b[1]) << 8 | static_cast<uint32_t>(b[2]) << 16 |
         static_cast<uint32_t>(b[3]) << 24;
}

template <class T, int kBits>
__device__ __forceinline__ float ZeroPoint(const Arguments& p, int64_t column, int64_t block) {
  if (p.zero_point == static_cast<int64_t>(NBitsZeroPoint::kMiddle)) return static_cast<float>(1 << (kBits - 1));
  if (p.zero_point == static_cast<int64_t>(NBitsZeroPoint::kFloating)) {
    return Load(static_cast<const T*>(p.at.zero_points)[column * p.blocks + block]);
  }
  const int64_t bit = block * kBits;
  const auto byte = static_cast<const uint8_t*>(p.at.zero_points)[column * p.zero_point_bytes + bit / 8];
  return static_cast<float>((byte >> (bit % 8)) & ((1 << kBits) - 1));
}

// One warp a slice of the words, one lane a column; the slices meet in shared memory.
template <class T, int kBits>
__global__ void __launch_bounds__(kColumns* kSlices) MatMulNBitsKernel(__grid_constant__ const Arguments p) {
  constexpr int kElems = 32 / kBits;  // of a word
  device::GridDependencyWait();
  __shared__ float sums[kSlices][kRows][kColumns];
  const int lane = static_cast<int>(threadIdx.x), slice = static_cast<int>(threadIdx.y);
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kColumns + lane;
  const auto* const b = static_cast<const uint8_t*>(p.at.b);
  const auto* const scales = static_cast<const T*>(p.at.scales);
  for (int64_t first = static_cast<int64_t>(blockIdx.y) * kRows; first < p.m;
       first += static_cast<int64_t>(gridDim.y) * kRows) {
    float acc[kRows] = {};
    for (int64_t word = column < p.n ? slice : p.words; word < p.words; word += kSlices) {
      const uint32_t bits = LoadWord(b + (column * p.column_stride + word * p.word_stride) * 4, p.aligned != 0);
      const int64_t k = word * kElems;
      int64_t block = k >> p.log_block;
      float scale = Load(scales[column * p.blocks + block]);
      float zero = ZeroPoint<T, kBits>(p, column, block);
      for (int i = 0; i < kElems && k + i < p.k; ++i) {
        if (p.at.groups != nullptr) {
          block = p.at.groups[k + i];
          if (block < 0 || block >= p.blocks) continue;
          scale = Load(scales[column * p.blocks + block]);
          zero = ZeroPoint<T, kBits>(p, column, block);
        }
        const float weight = (static_cast<float>((bits >> (kBits * i)) & ((1u << kBits) - 1u)) - zero) * scale;
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
          if (first + r < p.m) acc[r] += weight * Load(static_cast<const T*>(p.at.a)[(first + r) * p.k + k + i]);
        }
      }
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) sums[slice][r][lane] = acc[r];
    __syncthreads();
    if (slice < kRows && first + slice < p.m && column < p.n) {
      float sum = 0;
      for (int s = 0; s < kSlices; ++s) sum += sums[s][slice][lane];
      if (p.at.bias != nullptr) sum += Load(static_cast<const T*>(p.at.bias)[column]);
      static_cast<T*>(p.at.y)[(first + slice) * p.n + column] = Store<T>(sum);
    }
    __syncthreads();
  }
}

template <class T>
Status LaunchOf(const MatMulNBits& problem, const Arguments& arguments, device::Stream stream) {
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(CeilDiv<int64_t>(problem.n, kColumns));
  config.grid.y = static_cast<unsigned>(std::min(CeilDiv<int64_t>(problem.m, kRows), kMostRowBlocks));
  config.block = {kColumns, kSlices};
  config.programmatic = true;
  switch (problem.bits) {
    case 2:
      return device::Launch(MatMulNBitsKernel<T, 2>, config, stream, arguments);
    case 4:
      return device::Launch(MatMulNBitsKernel<T, 4>, config, stream, arguments);
    case 8:
      return device::Launch(MatMulNBitsKernel<T, 8>, config, stream, arguments);
    default:
      return Internal("weights of ", problem.bits, " bits");
  }
}

}  // namespace

Status LaunchMatMulNBits(const MatMulNBits& problem, const MatMulNBitsPointers& at, device::Stream stream) {
  if (problem.m == 0 || problem.n == 0) return Status::Ok();
  const Arguments arguments{.at = at,
                            .m = problem.m,
                            .n = problem.n,
                            .k = problem.k,
                            .words = problem.words(),
                            .column_stride = problem.packed ? 1 : problem.words(),
                            .word_stride = problem.packed ? problem.n : 1,
                            .log_block = std::countr_zero(static_cast<uint64_t>(problem.block)),
                            .blocks = problem.blocks(),
                            .zero_point = static_cast<int64_t>(problem.zero_point),
                            .zero_point_bytes = problem.zero_point_bytes(),
                            .aligned = IsAligned(at.b, sizeof(uint32_t)) ? 1 : 0};
  using Launcher = Status (*)(const MatMulNBits&, const Arguments&, device::Stream);
  const auto launch = VisitType<kFloatTypesNoDouble>(problem.type, Launcher{nullptr},
                                                     []<class T>() -> Launcher { return &LaunchOf<T>; });
  if (launch == nullptr) return NotSupported("element type ", DataTypeName(problem.type));
  return launch(problem, arguments, stream);
}

}  // namespace cudaep::kernels
