#include "kernels/quant/matmul_nbits.cuh"

namespace cudaep::kernels {
namespace {

constexpr int kColumns = 32;        // of a block, one a lane
constexpr int kSlices = 32;         // of the words, one a warp
constexpr int kActivations = 8192;  // elements of A that a block holds
constexpr int kMoreRows = 4;

// A block's rows of A, a chunk of the inner dimension at a time, are in shared memory; each warp walks words of 32
// columns. An element at bit b of a half word, put into the mantissa of 2^23 where it stands, counts 2^b times, so A's
// element counts 2^-b times there: no shifts. The warps' sums meet in shared memory.
template <class T, int kBits, int kRows, NBitsZeroPoint kZero>
__global__ void __launch_bounds__(kColumns* kSlices)
    NBitsRowsKernel(__grid_constant__ const NBitsArguments p, bool constant) {
  constexpr int kElems = 32 / kBits, kHalf = 16 / kBits;  // of a word, of half of it
  constexpr int kChunk = kActivations / kRows, kChunkWords = kChunk / kElems;
  constexpr int kBatch = (kRows == 1 && kBits < 8 ? 4 : 2) * kBits;  // words whose loads are in flight together
  constexpr int kBlocks = kBatch * kElems / 16;                      // scales for them, one for the smallest block
  static_assert(kSlices * kRows * kColumns <= kActivations);
  __shared__ float activations[kRows][kChunk];
  const int lane = static_cast<int>(threadIdx.x), slice = static_cast<int>(threadIdx.y);
  const int thread = slice * kColumns + lane;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kColumns + lane;
  const int64_t first_row = static_cast<int64_t>(blockIdx.y) * kRows;
  const bool inside = column < p.n;
  const auto* const b = static_cast<const uint32_t*>(p.at.b) + (inside ? column : 0) * p.column_stride;
  const auto* const a = static_cast<const T*>(p.at.a);

  float sums[kRows] = {};
  uint32_t words[kBatch];
  float scales[kBlocks], zeros[kBlocks];
  const auto load = [&](int64_t first, int64_t end) {
#pragma unroll
    for (int j = 0; j < kBatch; ++j) words[j] = first + j < end ? b[(first + j) * p.word_stride] : 0;
#pragma unroll
    for (int j = 0; j < kBlocks; ++j) {
      const int64_t k = first * kElems + 16 * j;
      const bool exists = inside && k < p.words * kElems;
      scales[j] = exists ? NBitsScale<T>(p, column, k >> p.log_block) : 0;
      zeros[j] = kZero == NBitsZeroPoint::kMiddle ? static_cast<float>(1 << (kBits - 1))
                 : exists                         ? NBitsZero<T, kBits>(p, column, k >> p.log_block)
                                                  : 0.0f;
    }
  };
  // Constants that come first are asked for while the kernel before this one still runs.
  if (constant) load(slice * kBatch, p.words);
  device::GridDependencyWait();
  if (!constant) load(slice * kBatch, p.words);

  for (int64_t begin = 0; begin < p.words; begin += kChunkWords) {
    const int64_t end = begin + kChunkWords < p.words ? begin + kChunkWords : p.words;
    if (begin != 0) {
      load(begin + slice * kBatch, end);
      __syncthreads();
    }
    // What lies behind the last word is not read.
    const int used = static_cast<int>(end - begin) * kElems, all = (kRows - 1) * kChunk + used;
    for (int i = thread; i < all; i += kColumns * kSlices) {
      const int row = i / kChunk, place = i % kChunk;
      const int64_t k = begin * kElems + place;
      const bool exists = first_row + row < p.m && k < p.k;
      const float value = exists ? Load(a[(first_row + row) * p.k + k]) : 0.0f;
      activations[row][place] = value * (1.0f / static_cast<float>(1 << (kBits * (place % kHalf))));
    }
    __syncthreads();
    for (int64_t first = begin + slice * kBatch; first < end; first += kSlices * kBatch) {
      if (first != begin + slice * kBatch) load(first, end);
#pragma unroll
      for (int j = 0; j < kBatch; ++j) {
        if (first + j >= end) break;
        const float scale = scales[j * kElems / 16], zero = zeros[j * kElems / 16];
        const int place = static_cast<int>(first + j - begin) * kElems;
        float dots[kRows] = {};
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const uint32_t bits = half == 0 ? words[j] : words[j] >> 16;
#pragma unroll
          for (int i = 0; i < kHalf; ++i) {
            const uint32_t mask = ((1u << kBits) - 1u) << (kBits * i);
            const float place_value = static_cast<float>(1 << (kBits * i));
            const float bits_and_magic = std::bit_cast<float>((bits & mask) | kNBitsMagicBits);
            // Whole zero points are taken off with the 2^23, exactly.
            const float weight = kZero == NBitsZeroPoint::kFloating
                                     ? (bits_and_magic - kNBitsMagic) - zero * place_value
                                     : bits_and_magic - (kNBitsMagic + zero * place_value);
#pragma unroll
            for (int r = 0; r < kRows; ++r) dots[r] += weight * activations[r][place + half * kHalf + i];
          }
        }
#pragma unroll
        for (int r = 0; r < kRows; ++r) sums[r] += scale * dots[r];
      }
    }
  }
  __syncthreads();
  float* const partial = &activations[0][0];
#pragma unroll
  for (int r = 0; r < kRows; ++r) partial[(slice * kRows + r) * kColumns + lane] = sums[r];
  __syncthreads();
  if (slice >= kRows || first_row + slice >= p.m || !inside) return;
  float sum = 0;
  for (int s = 0; s < kSlices; ++s) sum += partial[(s * kRows + slice) * kColumns + lane];
  if (p.at.bias != nullptr) sum += Load(static_cast<const T*>(p.at.bias)[column]);
  static_cast<T*>(p.at.y)[(first_row + slice) * p.n + column] = Store<T>(sum);
}

template <class T, int kBits>
struct Rows {
  template <int kRows>
  static Status Launch(device::LaunchConfig& config, const NBitsArguments& p, bool constant, device::Stream stream) {
    config.grid.y = static_cast<unsigned>(CeilDiv<int64_t>(p.m, kRows));
    switch (static_cast<NBitsZeroPoint>(p.zero_point)) {
      case NBitsZeroPoint::kMiddle:
        return device::Launch(NBitsRowsKernel<T, kBits, kRows, NBitsZeroPoint::kMiddle>, config, stream, p, constant);
      case NBitsZeroPoint::kPacked:
        return device::Launch(NBitsRowsKernel<T, kBits, kRows, NBitsZeroPoint::kPacked>, config, stream, p, constant);
      case NBitsZeroPoint::kFloating:
        break;
    }
    return device::Launch(NBitsRowsKernel<T, kBits, kRows, NBitsZeroPoint::kFloating>, config, stream, p, constant);
  }
  static Status Run(device::LaunchConfig& config, const NBitsArguments& p, bool constant, device::Stream stream) {
    return p.m == 1 ? Launch<1>(config, p, constant, stream) : Launch<kMoreRows>(config, p, constant, stream);
  }
};

}  // namespace

Status LaunchMatMulNBitsRows(const MatMulNBits& problem, const MatMulNBitsPointers& at, device::Stream stream) {
  if (IsEmpty(problem)) return Status::Ok();
  if (problem.m >= kNBitsMatrixRows) return InvalidArgument(problem.m, " rows are not few: that is a matrix product");
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(CeilDiv<int64_t>(problem.n, kColumns));
  config.block = {kColumns, kSlices};
  config.programmatic = true;
  const bool constant = problem.all_packed();
  const auto launch = NBitsLauncher<Rows, decltype(&Rows<float, 4>::Run)>(problem.type, problem.bits);
  if (launch == nullptr) return NotSupported("weights of ", problem.bits, " bits for ", DataTypeName(problem.type));
  return launch(config, NBitsArgumentsOf(problem, at), constant, stream);
}

}  // namespace cudaep::kernels
