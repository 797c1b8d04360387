#include <algorithm>

#include "kernels/quant/matmul_nbits.cuh"

namespace cudaep::kernels {
namespace {

constexpr int kColumns = 128;  // of a block, one a thread
constexpr int kWords = 4;      // of a thread
constexpr int64_t kMostWordBlocks = 65535;

// A thread reads words of one column and writes their elements, each into another row: a warp reads and writes
// neighbouring columns.
template <class T, int kBits>
__global__ void __launch_bounds__(kColumns)
    DequantizeNBitsKernel(__grid_constant__ const NBitsArguments p, T* __restrict__ matrix) {
  constexpr int kElems = 32 / kBits;
  device::GridDependencyWait();
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kColumns + threadIdx.x;
  if (column >= p.n) return;
  const auto* const b = static_cast<const uint32_t*>(p.at.b) + column * p.column_stride;
  for (int64_t first = static_cast<int64_t>(blockIdx.y) * kWords; first < p.words;
       first += static_cast<int64_t>(gridDim.y) * kWords) {
    uint32_t words[kWords];
#pragma unroll
    for (int j = 0; j < kWords; ++j) words[j] = first + j < p.words ? b[(first + j) * p.word_stride] : 0;
    int64_t block = -1;
    float scale = 0, zero = 0;
#pragma unroll
    for (int j = 0; j < kWords; ++j) {
      const int64_t k = (first + j) * kElems;
      if (k >= p.k) break;
      if (k >> p.log_block != block) {
        block = k >> p.log_block;
        scale = NBitsScale<T>(p, column, block);
        zero = NBitsZero<T, kBits>(p, column, block);
      }
      T* const to = matrix + k * p.n + column;
#pragma unroll
      for (int i = 0; i < kElems; ++i) {
        if (k + i >= p.k) break;
        const auto value = static_cast<float>((words[j] >> (kBits * i)) & ((1u << kBits) - 1u));
        to[i * p.n] = Store<T>((value - zero) * scale);
      }
    }
  }
}

template <class T, int kBits>
struct Dequantize {
  static Status Run(const device::LaunchConfig& config, const NBitsArguments& arguments, void* matrix,
                    device::Stream stream) {
    return device::Launch(DequantizeNBitsKernel<T, kBits>, config, stream, arguments, static_cast<T*>(matrix));
  }
};

}  // namespace

Status LaunchDequantizeNBits(const MatMulNBits& problem, const MatMulNBitsPointers& at, void* matrix,
                             device::Stream stream) {
  if (problem.n == 0 || problem.k == 0) return Status::Ok();
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(CeilDiv<int64_t>(problem.n, kColumns));
  config.grid.y = static_cast<unsigned>(std::min(CeilDiv<int64_t>(problem.words(), kWords), kMostWordBlocks));
  config.block.x = kColumns;
  config.programmatic = true;
  const auto launch = NBitsLauncher<Dequantize, decltype(&Dequantize<float, 4>::Run)>(problem.type, problem.bits);
  if (launch == nullptr) return NotSupported("weights of ", problem.bits, " bits for ", DataTypeName(problem.type));
  return launch(config, NBitsArgumentsOf(problem, at), matrix, stream);
}

}  // namespace cudaep::kernels
