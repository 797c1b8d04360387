// Up to 64 rows of 16-bit floats through tensor cores: the weights' columns are the rows of a matrix A of mma, the rows
// of the product the columns of B.
//
// A warp has 32 columns and a part of the inner dimension. In a step of four words of each column, lane (g, t) loads
// the t-th words of columns 4 * g to 4 * g + 3: 16 bytes, where eight lanes have 128 neighbouring ones. Weights are
// constants, so they are asked for while the kernel before this one still runs, and those of the next chunk as soon as
// a word is used. The left matrix comes through shared memory, a chunk ahead.
#include <algorithm>
#include <bit>

#include "device/async_copy.h"
#include "device/cluster.h"
#include "device/device_info.h"
#include "device/tensor_core.h"
#include "kernels/epilogue/activate.cuh"
#include "kernels/pack.h"
#include "kernels/quant/gated_nbits.h"
#include "kernels/quant/matmul_nbits.cuh"
#include "kernels/quant/nbits_block.cuh"

namespace cudaep::kernels {
namespace {

using namespace nbits;

// kGated: of two warps beside each other one has columns of the first factor, the other the same of the second.
template <class T, int kBits, bool kZeros, class B, bool kGated = false>
__global__ void __launch_bounds__(B::kThreads, B::kResident) NBitsTensorKernel(__grid_constant__ const Arguments p) {
  static_assert(!kGated || B::kWide == 2);
  constexpr int kStepElems = 128 / kBits, kPairs = kNBitsPairs<kBits>, kGroups = B::kGroups;
  constexpr int kChunk = B::template kChunkElems<kBits>, kPieces = kChunk / kPieceElems;
  // Many rows cost less with weights that are rounded to T with their scale, as a matrix of them would be.
  constexpr bool kScaleWeights = kGroups > 2;
  T* const shared = device::DynamicShared<T>();
  const int thread = static_cast<int>(threadIdx.x), lane = thread % kWarp, g = lane / 4, t = lane % 4;
  const int wide = thread / kWarp % B::kWide, deep = thread / kWarp / B::kWide;
  const int split = static_cast<int>(blockIdx.x) % p.splits;
  constexpr int kOwnColumns = kGated ? kWarpColumns : B::kColumns;  // of y
  const int first_column = static_cast<int>(blockIdx.x) / p.splits * kOwnColumns;
  const int column = device::Min(first_column + (kGated ? 0 : wide * kWarpColumns) + 4 * g, p.n - 4);
  const Weights& factor = p.weights[kGated ? wide : 0];
  const int begin = device::Min(split * p.own_steps, p.steps), end = device::Min(begin + p.own_steps, p.steps);

  Words ring[B::kSteps];
  const auto ask = [&](Words& to, int step) {
    if (step >= end) return;
    const auto row = [&](int index) { return static_cast<uint32_t>(index * p.n + column); };
    const int block = step * kStepElems >> p.log_block;
    to.weights = LoadPack<4>(static_cast<const uint32_t*>(factor.b) + row(step * 4 + t));
    to.scales = LoadPack<2>(reinterpret_cast<const uint32_t*>(static_cast<const T*>(factor.scales) + row(block)));
    if constexpr (kZeros) {
      const auto* const zeros = static_cast<const uint8_t*>(factor.zero_points) + row(block * kBits / 8);
      to.zeros = *reinterpret_cast<const uint32_t*>(zeros);
    }
  };
#pragma unroll
  for (int i = 0; i < B::kSteps; ++i) ask(ring[i], begin + deep * B::kSteps + i);

  // Rows that there are not are left as they are in shared memory: they are in sums that nobody reads.
  const auto bring = [&](T* to, int chunk) {
    for (int i = chunk < end ? thread : p.m * kPieces; i < p.m * kPieces; i += B::kThreads) {
      const int row = i / kPieces, piece = i % kPieces, k = chunk * kStepElems + piece * kPieceElems;
      T* const place = to + PlaceOf<kBits, kChunk>(row, piece);
      const T* const from = static_cast<const T*>(p.a) + int64_t{row} * p.k + k;
      if (p.whole_packs) {
        device::CopyAsync<kPackBytes>(place, k < p.k ? from : static_cast<const T*>(p.a), k < p.k ? kPackBytes : 0);
      } else {
        for (int j = 0; j < kPieceElems; ++j) place[j] = k + j < p.k ? from[j] : T{};
      }
    }
    device::CommitCopies();
  };
  device::GridDependencyWait();
  device::TriggerDependents();  // not before: of all that follow the next kernel alone is to take room here
  T *chunk = shared, *next = shared + B::kRows * kChunk;
  bring(chunk, begin);
  bring(next, begin + B::kChunkSteps);

  device::FragmentD<float> sums[2][kGroups] = {};
#pragma unroll 1
  for (int first = begin; first < end; first += B::kChunkSteps) {
    device::WaitForCopies<1>();
    __syncthreads();
#pragma unroll
    for (int i = 0; i < B::kSteps; ++i) {
      const int step = first + deep * B::kSteps + i;
      if (step >= end) break;
      NBitsPairs<kBits> weights[4];
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        uint32_t zero = kMiddlePair<kBits>;
        if constexpr (kZeros) {
          zero = ZeroPair<kBits>(ring[i].zeros, c, (step * kStepElems >> p.log_block) * kBits % 8);
        }
        const uint32_t word = ring[i].weights.value[c];
        weights[c] = kScaleWeights ? ScaledWeightPairs<T, kBits>(word, zero, Twice(ring[i].scales.value, c))
                                   : WeightPairs<T, kBits>(word, zero);
      }
#pragma unroll
      for (int group = 0; group < kGroups; ++group) {
        const auto x = LoadActivations<T, kBits, B>(chunk, group * 8 + g, deep * B::kSteps + i, t);
#pragma unroll
        for (int tile = 0; tile < 2; ++tile) {
          const auto &upper = weights[2 * tile], &lower = weights[2 * tile + 1];
          device::FragmentD<float> dot = {};
          device::FragmentD<float>& to = kScaleWeights ? sums[tile][group] : dot;
#pragma unroll
          for (int j = 0; j < kPairs; j += 2) {
            device::Mma(to, device::FragmentA<T>{{upper.pair[j], lower.pair[j], upper.pair[j + 1], lower.pair[j + 1]}},
                        device::FragmentB<T>{{x.pair[j], x.pair[j + 1]}});
          }
          if constexpr (!kScaleWeights) {
#pragma unroll
            for (int v = 0; v < 4; ++v) {
              const uint32_t scale = ring[i].scales.value[tile] >> (v / 2 * 16);
              sums[tile][group].value[v] += ToFloat(T{static_cast<uint16_t>(scale)}) * dot.value[v];
            }
          }
        }
      }
      ask(ring[i], step + B::kChunkSteps);
    }
    __syncthreads();
    bring(chunk, first + 2 * B::kChunkSteps);
    T* const other = chunk;
    chunk = next, next = other;
  }

  // The chunks' memory is the sums' now, [deep][row][column].
  device::WaitForCopies<0>();
  __syncthreads();
  auto* const parts = reinterpret_cast<float*>(shared);
#pragma unroll
  for (int group = 0; group < kGroups; ++group) {
#pragma unroll
    for (int v = 0; v < 2; ++v) {
      const int row = group * 8 + device::MmaColumn(lane, v);
      if (row >= p.m) continue;
      const auto &left = sums[0][group].value, &right = sums[1][group].value;
      StorePack(parts + (deep * B::kRows + row) * B::kSumStride + wide * kWarpColumns + 4 * g,
                Pack<float, 4>{left[v], left[v + 2], right[v], right[v + 2]});
    }
  }
  __syncthreads();
  using Sum = Pack<float, 4>;
  constexpr int kRowPacks = kOwnColumns / 4, kFactors = kGated ? 2 : 1;
  const int packs = p.m * kRowPacks;
  const auto place_of = [&](int i, int f) {
    return parts + i / kRowPacks * B::kSumStride + f * kWarpColumns + i % kRowPacks * 4;
  };
  const auto add = [](Sum& sum, const Sum& term) {
#pragma unroll
    for (int j = 0; j < 4; ++j) sum.value[j] += term.value[j];
  };
  const auto finish = [&](int i, const Sum(&sum)[kFactors]) {
    const int c = first_column + i % kRowPacks * 4;
    if (c >= p.n) return;
    T* const y = static_cast<T*>(p.y) + int64_t{i / kRowPacks} * p.n + c;
    Pack<T, 4> result;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      float value = sum[0].value[j];
      if constexpr (kGated) {
        value = ActivateApproximately(static_cast<Activation>(p.activation), {}, value) * sum[1].value[j];
      } else if (p.bias != nullptr) {
        value += ToFloat(static_cast<const T*>(p.bias)[c + j]);
      }
      result.value[j] = Store<T>(value);
    }
    if (p.whole_packs) return StorePack(y, result);
    for (int j = 0; j < 4; ++j) y[j] = result.value[j];
  };
  for (int i = thread; i < packs; i += B::kThreads) {
    Sum sum[kFactors] = {};
#pragma unroll
    for (int f = 0; f < kFactors; ++f) {
#pragma unroll
      for (int d = 0; d < B::kDeep; ++d) add(sum[f], LoadPack<4>(place_of(i, f) + d * B::kRows * B::kSumStride));
      if (p.splits > 1) StorePack(place_of(i, f), sum[f]);
    }
    if (p.splits == 1) finish(i, sum);
  }
  if (p.splits == 1) return;
  device::ClusterBarrier();
  for (int i = split + thread * p.splits; i < packs; i += B::kThreads * p.splits) {
    Sum sum[kFactors] = {};
#pragma unroll
    for (int f = 0; f < kFactors; ++f) {
      for (int s = 0; s < p.splits; ++s) {
        add(sum[f], device::LoadFromCluster<Sum>(place_of(i, f), static_cast<unsigned>(s)));
      }
    }
    finish(i, sum);
  }
  device::ClusterBarrier();  // the others have read this block's sums
}

struct Launching {
  const MatMulNBits& problem;
  const device::DeviceInfo& device;
  Arguments p;
  device::Stream stream;
};

// By measurement on an H200, of 1,024 to 14,336 columns and 4,096 to 14,336 elements.
template <int kBits, class Function>
auto WithBlock(int64_t rows, Function&& function) {
  constexpr int kSteps = kBits == 2 ? 2 : 4;  // two bits: twice the elements in a step
  if (rows <= 8) return function(Block<1, 1, 8, 2 * kSteps, 2>());
  if (rows <= 16) return function(Block<2, 2, 8, kSteps, 1>());
  if (rows <= 32) return function(Block<4, 2, 4, kSteps, 2>());
  return function(Block<8, 2, 4, kSteps, 1>());
}

// By measurement on an H200 too, of 2,048 elements and 8,192 columns.
using GatedBlock = Block<2, 2, 8, 4, 1>;

template <class T, int kBits, bool kGated, class B>
Status LaunchBlocks(Launching& l, B) {
  const int64_t blocks = CeilDiv<int64_t>(l.p.n, kGated ? kWarpColumns : B::kColumns);
  const int steps = B::kChunkSteps;
  l.p.splits = SplitsOf(l.device, blocks, l.p.steps, steps);
  l.p.own_steps = CeilDiv<int>(CeilDiv<int>(l.p.steps, l.p.splits), steps) * steps;
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(blocks * l.p.splits);
  config.cluster.x = static_cast<unsigned>(l.p.splits);
  config.block.x = B::kThreads;
  config.shared_bytes = B::template kSharedBytes<kBits>;
  config.programmatic = true;
  const auto kernel = l.problem.zero_point == NBitsZeroPoint::kMiddle ? NBitsTensorKernel<T, kBits, false, B, kGated>
                                                                      : NBitsTensorKernel<T, kBits, true, B, kGated>;
  return device::Launch(kernel, config, l.stream, l.p);
}

template <class T, int kBits>
Status LaunchBits(Launching& l) {
  return WithBlock<kBits>(l.p.m, [&](auto block) { return LaunchBlocks<T, kBits, false>(l, block); });
}
template <class T>
Status LaunchGated(Launching& l) {
  return LaunchBlocks<T, 4, true>(l, GatedBlock());
}

template <class T>
Status LaunchType(Launching& l) {
  if (l.problem.bits == 2) return LaunchBits<T, 2>(l);
  return l.problem.bits == 4 ? LaunchBits<T, 4>(l) : LaunchBits<T, 8>(l);
}

template <int kBits>
size_t SharedBytes(int64_t rows) {
  return WithBlock<kBits>(rows, []<class B>(B) { return B::template kSharedBytes<kBits>; });
}

Launching MakeLaunching(const MatMulNBits& problem, const GatedNBitsPointers& at, Activation activation,
                        const device::DeviceInfo& device, device::Stream stream) {
  const MatMulNBitsPointers& first = at.first;
  return {.problem = problem,
          .device = device,
          .p = {.a = first.a,
                .weights = {{first.b, first.scales, first.zero_points}, {at.b, at.scales, at.zero_points}},
                .bias = first.bias,
                .y = first.y,
                .m = static_cast<int32_t>(problem.m),
                .n = static_cast<int32_t>(problem.n),
                .k = static_cast<int32_t>(problem.k),
                .steps = static_cast<int32_t>(problem.words() / 4),
                .own_steps = 0,
                .splits = 1,
                .log_block = std::countr_zero(static_cast<uint64_t>(problem.block)),
                .whole_packs = IsAligned(first.a, kPackBytes) && problem.k % kPieceElems == 0 && IsAligned(first.y, 8),
                .activation = static_cast<int32_t>(activation)},
          .stream = stream};
}

}  // namespace

bool FitsNBitsTensorCores(const MatMulNBits& problem, const device::DeviceInfo& device) {
  const int64_t m = problem.m;
  const size_t shared = problem.bits == 2   ? SharedBytes<2>(m)
                        : problem.bits == 4 ? SharedBytes<4>(m)
                                            : SharedBytes<8>(m);
  return kFloat16Types.Contains(problem.type) && problem.all_packed() && problem.block >= 128 / problem.bits &&
         m <= kNBitsTensorRows && problem.n % 4 == 0 && problem.zero_point != NBitsZeroPoint::kFloating &&
         FitsInt32(problem.words() * problem.n) && FitsInt32(problem.k) && device.major >= 8 &&
         device.shared_bytes_per_block >= shared;
}

Status LaunchMatMulNBitsTensorCores(const MatMulNBits& problem, const MatMulNBitsPointers& at,
                                    const device::DeviceInfo& device, device::Stream stream) {
  if (IsEmpty(problem)) return Status::Ok();
  if (!FitsNBitsTensorCores(problem, device)) return InvalidArgument("no product of tensor cores: other kernels do it");
  Launching l = MakeLaunching(problem, {.first = at}, Activation::kNone, device, stream);
  if (TakesFewRows(problem, false, device)) return LaunchFewRows(problem, false, l.p, device, stream);
  return problem.type == DataType::kFloat16 ? LaunchType<Half>(l) : LaunchType<BFloat16>(l);
}

bool FitsGatedNBits(const GatedNBits& product, const device::DeviceInfo& device) {
  const MatMulNBits& problem = product.product;
  static_assert(GatedBlock::kSharedBytes<4> <= Block<1, 1, 8, 8, 2>::kSharedBytes<4>,
                "a device that has room for the product has it for the gate");
  return problem.m <= kNBitsGatedRows && problem.bits == 4 && ParameterCount(product.activation) == 0 &&
         FitsNBitsTensorCores(problem, device);
}

Status LaunchGatedNBits(const GatedNBits& product, const GatedNBitsPointers& at, const device::DeviceInfo& device,
                        device::Stream stream) {
  if (IsEmpty(product.product)) return Status::Ok();
  if (!FitsGatedNBits(product, device)) return InvalidArgument("no product with a gate: other kernels do it");
  Launching l = MakeLaunching(product.product, at, product.activation, device, stream);
  if (TakesFewRows(product.product, true, device)) return LaunchFewRows(product.product, true, l.p, device, stream);
  return product.product.type == DataType::kFloat16 ? LaunchGated<Half>(l) : LaunchGated<BFloat16>(l);
}

}  // namespace cudaep::kernels
