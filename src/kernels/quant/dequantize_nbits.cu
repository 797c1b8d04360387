#include <algorithm>

#include "device/words.h"
#include "kernels/pack.h"
#include "kernels/quant/matmul_nbits.cuh"
#include "kernels/quant/nbits_pairs.cuh"

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

// Packed constants: a thread reads one word of each of four columns, and writes 8 bytes of as many rows as a word has
// elements.
constexpr int kPackColumns = 4;
template <class T, int kBits>
__global__ void __launch_bounds__(kColumns)
    DequantizePackedNBitsKernel(__grid_constant__ const NBitsArguments p, T* __restrict__ matrix) {
  constexpr int kElems = 32 / kBits, kPairs = kNBitsPairs<kBits>;
  device::GridDependencyWait();
  const int64_t column = (static_cast<int64_t>(blockIdx.x) * kColumns + threadIdx.x) * kPackColumns;
  if (column >= p.n) return;
  for (int64_t word = blockIdx.y; word * kElems < p.k; word += gridDim.y) {
    const int64_t k = word * kElems, block = k >> p.log_block, bit = block * kBits;
    const auto words = LoadPack<4>(static_cast<const uint32_t*>(p.at.b) + word * p.n + column);
    const auto scales = LoadPack<4>(static_cast<const T*>(p.at.scales) + block * p.n + column);
    uint32_t zeros = 0;
    const bool has_zeros = p.zero_point != static_cast<int64_t>(NBitsZeroPoint::kMiddle);
    if (has_zeros) {
      const auto* const bytes = static_cast<const uint8_t*>(p.at.zero_points) + bit / 8 * p.n + column;
      zeros = *reinterpret_cast<const uint32_t*>(bytes);
    }
    NBitsPairs<kBits> weights[kPackColumns];
#pragma unroll
    for (int c = 0; c < kPackColumns; ++c) {
      const uint32_t zero = has_zeros ? ZeroPair<kBits>(zeros, c, static_cast<int>(bit % 8)) : kMiddlePair<kBits>;
      weights[c] = ScaledWeightPairs<T, kBits>(words.value[c], zero, scales.value[c].bits * 0x10001u);
    }
    auto* const to = reinterpret_cast<uint32_t*>(matrix + k * p.n + column);
    const auto store = [&](int i, uint32_t left, uint32_t right) {
      if (k + i < p.k) StorePack(to + i * (p.n / 2), Pack<uint32_t, 2>{left, right});
    };
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const uint32_t w[] = {weights[0].pair[i], weights[1].pair[i], weights[2].pair[i], weights[3].pair[i]};
      store(i, device::JoinHalves<false>(w[0], w[1]), device::JoinHalves<false>(w[2], w[3]));
      store(i + kPairs, device::JoinHalves<true>(w[0], w[1]), device::JoinHalves<true>(w[2], w[3]));
    }
  }
}

template <class T, int kBits>
struct DequantizePacked {
  static Status Run(const device::LaunchConfig& config, const NBitsArguments& arguments, void* matrix,
                    device::Stream stream) {
    if constexpr (std::is_same_v<T, float>) {
      return InvalidArgument("pairs are of 16-bit floats");
    } else {
      return device::Launch(DequantizePackedNBitsKernel<T, kBits>, config, stream, arguments, static_cast<T*>(matrix));
    }
  }
};

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
  const bool pairs = kFloat16Types.Contains(problem.type) && problem.all_packed() && problem.n % kPackColumns == 0 &&
                     problem.zero_point != NBitsZeroPoint::kFloating;
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(CeilDiv<int64_t>(problem.n, kColumns * (pairs ? kPackColumns : 1)));
  config.grid.y =
      static_cast<unsigned>(std::min(CeilDiv<int64_t>(problem.words(), pairs ? 1 : kWords), kMostWordBlocks));
  config.block.x = kColumns;
  config.programmatic = true;
  using Run = decltype(&Dequantize<float, 4>::Run);
  const auto launch = pairs ? NBitsLauncher<DequantizePacked, Run>(problem.type, problem.bits)
                            : NBitsLauncher<Dequantize, Run>(problem.type, problem.bits);
  if (launch == nullptr) return NotSupported("weights of ", problem.bits, " bits for ", DataTypeName(problem.type));
  return launch(config, NBitsArgumentsOf(problem, at), matrix, stream);
}

}  // namespace cudaep::kernels
