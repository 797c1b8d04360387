// Few rows of 16-bit floats through tensor cores: the weights' columns are the rows of a matrix A of mma, the rows of
// the product the columns of B.
#include "device/intrinsics.h"
#include "device/pairs.h"
#include "device/tensor_core.h"
#include "kernels/pack.h"
#include "kernels/quant/matmul_nbits.cuh"

namespace cudaep::kernels {
namespace {

constexpr int kWarp = 32;
constexpr int kWarps = 16;      // of a block, each with a part of the inner dimension
constexpr int kStepElems = 32;  // of the inner dimension in a step: eight for each of the four lanes of a row
constexpr int kMostSteps = 8, kWordsAtOnce = 32;  // asked for together: steps, and words of a lane by groups of rows
constexpr int kMmaRows = 16, kMmaColumns = 8;

// Eight weights, less their zero points, as the words of a row of A for two products; weights i and i + 4 are
// neighbours in a word.
template <class T>
struct Weights {
  uint32_t pair[4];
};

// 1024 as Half and 128 as BFloat16 hold small integers in their lowest bits.
template <class T>
inline constexpr uint32_t kMagicPair = std::is_same_v<T, Half> ? 0x64006400u : 0x43004300u;
template <class T>
inline constexpr float kMagicOf = std::is_same_v<T, Half> ? 1024.0f : 128.0f;

template <class T>
__device__ __forceinline__ uint32_t PairOf(float low, float high) {
  return Store<T>(low).bits | static_cast<uint32_t>(Store<T>(high).bits) << 16;
}

// Integers below 2^8 are exact in either type, and so is what is computed here.
template <class T>
__device__ __forceinline__ Weights<T> WeightsOf(const uint32_t (&word)[1], float zero) {
  const uint32_t one = PairOf<T>(1.0f, 1.0f), offset = PairOf<T>(-kMagicOf<T> - zero, -kMagicOf<T> - zero);
  Weights<T> weights;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint32_t pair = (word[0] >> (4 * i) & 0x000f000fu) | kMagicPair<T>;
    weights.pair[i] = device::FmaOfPairs<T>(pair, one, offset);
  }
  return weights;
}
template <class T>
__device__ __forceinline__ Weights<T> WeightsOf(const uint32_t (&word)[2], float zero) {
  Weights<T> weights;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float low = static_cast<float>(word[0] >> (8 * i) & 0xffu);
    const float high = static_cast<float>(word[1] >> (8 * i) & 0xffu);
    weights.pair[i] = PairOf<T>(low - zero, high - zero);
  }
  return weights;
}

// Eight neighbours of a row of the left matrix in the order of Weights.
template <class T>
struct Activations {
  uint32_t pair[4];
};

template <class T>
__device__ __forceinline__ Activations<T> LoadActivations(const T* row, uint32_t k, uint32_t end, bool packs) {
  Pack<T, 8> values = {};
  if (packs) {  // and rows end with one
    if (k < end) values = LoadPack<8>(row + k);
  } else {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (k + i < end) values.value[i] = row[k + i];
    }
  }
  Activations<T> result;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    result.pair[i] = values.value[i].bits | static_cast<uint32_t>(values.value[i + 4].bits) << 16;
  }
  return result;
}

// kTiles: of 16 columns of the weights each, of a block. kGroups: of 8 rows of the product each. One copy of the code
// that loads and of that which multiplies: launches are as short as fetching their instructions.
template <class T, int kBits, int kTiles, int kGroups, NBitsZeroPoint kZero>
__global__ void __launch_bounds__(kWarp* kWarps)
    NBitsTensorKernel(__grid_constant__ const NBitsArguments p, bool constant, bool packs) {
  constexpr int kWords = kBits / 4;  // of eight weights
  constexpr int kHalves = 2 * kTiles, kColumns = kMmaRows * kTiles, kRows = kMmaColumns * kGroups;
  constexpr int kSteps = device::Min(kWordsAtOnce / (kHalves * kWords * kGroups), kMostSteps);
  __shared__ float partial[kWarps][kRows][kColumns];
  const int lane = static_cast<int>(threadIdx.x), warp = static_cast<int>(threadIdx.y), g = lane / 4, t = lane % 4;
  const auto n = static_cast<uint32_t>(p.n), k = static_cast<uint32_t>(p.k), m = static_cast<uint32_t>(p.m);
  const uint32_t first_column = blockIdx.x * kColumns;
  const auto column_of = [&](int half) {
    return device::Min(first_column + static_cast<uint32_t>(half * 8 + g), n - 1);
  };
  const auto steps = static_cast<uint32_t>(p.words) * (32 / kBits) / kStepElems, own = (steps + kWarps - 1) / kWarps;
  const uint32_t begin = static_cast<uint32_t>(warp) * own, end = device::Min(begin + own, steps);

  const auto* const b = static_cast<const uint32_t*>(p.at.b);
  const auto word_stride = static_cast<uint32_t>(p.word_stride);
  uint32_t word_of[kHalves];
#pragma unroll
  for (int half = 0; half < kHalves; ++half) {
    word_of[half] = column_of(half) * static_cast<uint32_t>(p.column_stride) + t * kWords * word_stride;
  }
  const T* rows[kGroups];  // null: none
#pragma unroll
  for (int group = 0; group < kGroups; ++group) {
    const uint32_t row = static_cast<uint32_t>(group * kMmaColumns + g);
    rows[group] = row < m ? static_cast<const T*>(p.at.a) + row * p.k : nullptr;
  }
  // Lane t of four asks for scale and zero point of the t-th eight columns; they hand them to each other.
  const uint32_t scale_column = column_of(t % kHalves);
  device::FragmentD<float> sums[kTiles][kGroups] = {};

  // Constants that come first are asked for while the kernel before this one still runs.
  if (!constant) device::GridDependencyWait();
#pragma unroll 1
  for (uint32_t first = begin; first < end; first += kSteps) {
    uint32_t words[kSteps][kHalves][kWords];
    float scales[kSteps], zeros[kSteps];
    Activations<T> activations[kSteps][kGroups];
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      if (first + i >= end) break;
      const uint32_t step = first + i, block = step * kStepElems >> p.log_block;
#pragma unroll
      for (int half = 0; half < kHalves; ++half) {
#pragma unroll
        for (int w = 0; w < kWords; ++w) {
          words[i][half][w] = b[word_of[half] + (step * 4 * kWords + w) * word_stride];
        }
      }
      scales[i] = NBitsScale<T>(p, scale_column, block);
      if constexpr (kZero == NBitsZeroPoint::kPacked) zeros[i] = NBitsZero<T, kBits>(p, scale_column, block);
    }
    if (constant) device::GridDependencyWait();
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
#pragma unroll
      for (int group = 0; group < kGroups; ++group) {
        const bool exists = rows[group] != nullptr && first + i < end;
        activations[i][group] = LoadActivations(rows[group], (first + i) * kStepElems + t * 8, exists ? k : 0, packs);
      }
    }
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      if (first + i >= end) break;
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        float scale[2];
        Weights<T> weights[2];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int from = g * 4 + tile * 2 + half;
          scale[half] = __shfl_sync(device::kFullWarp, scales[i], from);
          float zero = static_cast<float>(1 << (kBits - 1));
          if constexpr (kZero == NBitsZeroPoint::kPacked) zero = __shfl_sync(device::kFullWarp, zeros[i], from);
          weights[half] = WeightsOf<T>(words[i][tile * 2 + half], zero);
        }
#pragma unroll
        for (int group = 0; group < kGroups; ++group) {
          device::FragmentD<float> dot = {};
#pragma unroll
          for (int j = 0; j < 4; j += 2) {
            const device::FragmentA<T> a = {
                {weights[0].pair[j], weights[1].pair[j], weights[0].pair[j + 1], weights[1].pair[j + 1]}};
            const device::FragmentB<T> x = {{activations[i][group].pair[j], activations[i][group].pair[j + 1]}};
            device::Mma(dot, a, x);
          }
#pragma unroll
          for (int v = 0; v < 4; ++v) sums[tile][group].value[v] += scale[v / 2] * dot.value[v];
        }
      }
    }
  }
  device::GridDependencyWait();

#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
#pragma unroll
      for (int v = 0; v < 4; ++v) {
        const int row = group * kMmaColumns + device::MmaColumn(lane, v);
        if (row < static_cast<int>(m))
          partial[warp][row][tile * kMmaRows + device::MmaRow(lane, v)] = sums[tile][group].value[v];
      }
    }
  }
  __syncthreads();
  for (int i = warp * kWarp + lane; i < static_cast<int>(m) * kColumns; i += kWarp * kWarps) {
    const int row = i / kColumns, place = i % kColumns;
    const uint32_t column = first_column + static_cast<uint32_t>(place);
    if (column >= n) continue;
    float sum = 0;
    for (int w = 0; w < kWarps; ++w) sum += partial[w][row][place];
    if (p.at.bias != nullptr) sum += Load(static_cast<const T*>(p.at.bias)[column]);
    static_cast<T*>(p.at.y)[row * p.n + column] = Store<T>(sum);
  }
}

struct Launching {
  device::LaunchConfig config;
  const NBitsArguments& p;
  bool constant, packs;
  int tiles;
  device::Stream stream;
};

template <class T, int kBits, int kTiles, int kGroups>
Status LaunchZero(Launching& l) {
  l.config.grid.x = static_cast<unsigned>(CeilDiv<int64_t>(l.p.n, kMmaRows * kTiles));
  const auto kernel = static_cast<NBitsZeroPoint>(l.p.zero_point) == NBitsZeroPoint::kMiddle
                          ? NBitsTensorKernel<T, kBits, kTiles, kGroups, NBitsZeroPoint::kMiddle>
                          : NBitsTensorKernel<T, kBits, kTiles, kGroups, NBitsZeroPoint::kPacked>;
  return device::Launch(kernel, l.config, l.stream, l.p, l.constant, l.packs);
}

template <class T, int kBits>
Status LaunchTiles(Launching& l) {
  if (l.p.m > kMmaColumns) return LaunchZero<T, kBits, 2, 2>(l);
  return l.tiles == 1 ? LaunchZero<T, kBits, 1, 1>(l) : LaunchZero<T, kBits, 2, 1>(l);
}

}  // namespace

bool FitsNBitsTensorCores(const MatMulNBits& problem, const device::DeviceInfo& device) {
  return kFloat16Types.Contains(problem.type) && problem.bits >= 4 && problem.block >= kStepElems &&
         problem.m < kNBitsMatrixRows && problem.zero_point != NBitsZeroPoint::kFloating &&
         FitsInt32(problem.words() * problem.n) && device.major >= 8;
}

Status LaunchMatMulNBitsTensorCores(const MatMulNBits& problem, const MatMulNBitsPointers& at,
                                    const device::DeviceInfo& device, device::Stream stream) {
  if (IsEmpty(problem)) return Status::Ok();
  if (!FitsNBitsTensorCores(problem, device)) return InvalidArgument("no product of tensor cores: other kernels do it");
  const NBitsArguments p = NBitsArgumentsOf(problem, at);
  // Wide blocks read the left matrix less often; narrow ones reach more multiprocessors.
  const bool narrow = problem.n <= int64_t{kMmaRows} * device.multiprocessors;
  Launching l{.config = {},
              .p = p,
              .constant = problem.packed && problem.packed_scales && problem.zero_point == NBitsZeroPoint::kMiddle,
              .packs = IsAligned(at.a, kPackBytes) && problem.k % 8 == 0,
              .tiles = narrow ? 1 : 2,
              .stream = stream};
  l.config.block = {kWarp, kWarps};
  l.config.programmatic = true;
  if (problem.type == DataType::kFloat16) return problem.bits == 4 ? LaunchTiles<Half, 4>(l) : LaunchTiles<Half, 8>(l);
  return problem.bits == 4 ? LaunchTiles<BFloat16, 4>(l) : LaunchTiles<BFloat16, 8>(l);
}

}  // namespace cudaep::kernels
