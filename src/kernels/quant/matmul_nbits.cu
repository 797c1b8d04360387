#include <algorithm>

#include "kernels/pack.h"
#include "kernels/quant/matmul_nbits.cuh"

namespace cudaep::kernels {
namespace {

constexpr int kColumns = 32;  // of a block, one a lane
constexpr int kSlices = 8;    // of the inner dimension, one a warp
constexpr int kRows = 4;      // of a block
constexpr int64_t kMostRowBlocks = 65535;

__device__ __forceinline__ uint32_t LoadWord(const uint8_t* b, bool aligned) {
  if (aligned) return *reinterpret_cast<const uint32_t*>(b);
  return b[0] | static_cast<uint32_t>(b[1]) << 8 | static_cast<uint32_t>(b[2]) << 16 |
         static_cast<uint32_t>(b[3]) << 24;
}

// One warp a slice of the words, one lane a column; the slices meet in shared memory.
template <class T, int kBits>
__global__ void __launch_bounds__(kColumns* kSlices)
    MatMulNBitsKernel(__grid_constant__ const NBitsArguments p, bool aligned) {
  constexpr int kElems = 32 / kBits;  // of a word
  device::GridDependencyWait();
  __shared__ float sums[kSlices][kRows][kColumns];
  const int lane = static_cast<int>(threadIdx.x), slice = static_cast<int>(threadIdx.y);
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kColumns + lane;
  const auto* const b = static_cast<const uint8_t*>(p.at.b);
  for (int64_t first = static_cast<int64_t>(blockIdx.y) * kRows; first < p.m;
       first += static_cast<int64_t>(gridDim.y) * kRows) {
    float acc[kRows] = {};
    for (int64_t word = column < p.n ? slice : p.words; word < p.words; word += kSlices) {
      const uint32_t bits = LoadWord(b + (column * p.column_stride + word * p.word_stride) * 4, aligned);
      const int64_t k = word * kElems;
      int64_t block = k >> p.log_block;
      float scale = NBitsScale<T>(p, column, block);
      float zero = NBitsZero<T, kBits>(p, column, block);
      for (int i = 0; i < kElems && k + i < p.k; ++i) {
        if (p.at.groups != nullptr) {
          block = p.at.groups[k + i];
          if (block < 0 || block >= p.blocks) continue;
          scale = NBitsScale<T>(p, column, block);
          zero = NBitsZero<T, kBits>(p, column, block);
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

template <class T, int kBits>
struct Plain {
  static Status Run(const device::LaunchConfig& config, const NBitsArguments& arguments, bool aligned,
                    device::Stream stream) {
    return device::Launch(MatMulNBitsKernel<T, kBits>, config, stream, arguments, aligned);
  }
};

}  // namespace

bool IsPlainNBits(const MatMulNBitsPointers& at) { return at.groups != nullptr || !IsAligned(at.b, sizeof(uint32_t)); }

Status LaunchMatMulNBits(const MatMulNBits& problem, const MatMulNBitsPointers& at, device::Stream stream) {
  if (IsEmpty(problem)) return Status::Ok();
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(CeilDiv<int64_t>(problem.n, kColumns));
  config.grid.y = static_cast<unsigned>(std::min(CeilDiv<int64_t>(problem.m, kRows), kMostRowBlocks));
  config.block = {kColumns, kSlices};
  config.programmatic = true;
  const auto launch = NBitsLauncher<Plain, decltype(&Plain<float, 4>::Run)>(problem.type, problem.bits);
  if (launch == nullptr) return NotSupported("weights of ", problem.bits, " bits for ", DataTypeName(problem.type));
  return launch(config, NBitsArgumentsOf(problem, at), IsAligned(at.b, sizeof(uint32_t)), stream);
}

}  // namespace cudaep::kernels
