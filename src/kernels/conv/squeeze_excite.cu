#include <algorithm>
#include <bit>

#include "core/checked_math.h"
#include "device/cluster.h"
#include "device/launch.h"
#include "kernels/common/trigger.cuh"
#include "kernels/conv/squeeze_excite.h"
#include "kernels/epilogue/activate.cuh"
#include "kernels/pack.h"

namespace cudaep::kernels {
namespace {

constexpr int kThreads = 512;
constexpr int kChannelPack = 8;
constexpr int kWord = 4;  // floats that blocks read of each other at once
constexpr int kMostBlocks = 8;

// outputs = activation(weights * inputs + bias)
struct Layer {
  const void* weights;  // [outputs, inputs]
  const void* bias;
  int32_t inputs, outputs, share;  // share: outputs of a block, whole words
  int32_t lanes;                   // of an output; a power of two, 32 at most
  ActivationParameters parameters;
  Activation activation;
  uint8_t in_packs,
      unused[6];  // whether rows of the weights are aligned packs; no padding, which might look like a pointer
};

struct Arguments {
  const void* x;
  void* y;
  int64_t pixels, share;  // share: of a block
  int32_t channels, blocks;
  int32_t width, lanes;  // of a block's threads: packs side by side, pixels at once, a power of two
  Layer first, second;
};

// Vectors of a block, in shared memory.
struct Vectors {
  float *sums, *means, *squeezed, *gates, *scratch;
};

__host__ __device__ constexpr int Words(int elems) { return (elems + kWord - 1) / kWord * kWord; }

__device__ __forceinline__ Vectors Place(const Arguments& p) {
  float* const at = device::DynamicShared<float>();
  const int channels = Words(p.channels);
  // The scratch is done with before another block writes what lies there.
  return {at, at + channels, at + 2 * channels, at + 2 * channels + Words(p.first.outputs), at + channels};
}

template <int kPack, class T>
__device__ __forceinline__ void AddTo(float (&sum)[kPack], const Pack<T, kPack>& pack) {
#pragma unroll
  for (int k = 0; k < kPack; ++k) sum[k] += ToFloat(pack.value[k]);
}

// The block's sums of each channel over its pixels, [begin, end).
template <int kPack, class T>
__device__ __forceinline__ void SumPixels(const Arguments& p, const T* image, int64_t begin, int64_t end,
                                          const Vectors& v) {
  constexpr int kInFlight = 4;
  const int place = static_cast<int>(threadIdx.x) % p.width, lane = static_cast<int>(threadIdx.x) / p.width;
  const int64_t step = int64_t{p.lanes} * p.channels;
  for (int first = 0; first < p.channels; first += p.width * kPack) {
    const int channel = first + place * kPack;
    const bool adds = lane < p.lanes && channel < p.channels;
    float sum[kPack] = {};
    if (adds) {
      int64_t pixel = begin + lane;
      const T* from = image + pixel * p.channels + channel;
#pragma unroll 1
      for (; pixel + (kInFlight - 1) * p.lanes < end; pixel += kInFlight * p.lanes, from += kInFlight * step) {
        Pack<T, kPack> pack[kInFlight];
#pragma unroll
        for (int i = 0; i < kInFlight; ++i) pack[i] = LoadPack<kPack>(from + i * step);
#pragma unroll
        for (int i = 0; i < kInFlight; ++i) AddTo(sum, pack[i]);
      }
#pragma unroll 1
      for (; pixel < end; pixel += p.lanes, from += step) AddTo(sum, LoadPack<kPack>(from));
    }
    float* const mine = v.scratch + threadIdx.x;
    for (int half = p.lanes / 2; half > 0; half /= 2) {
      if (adds && lane >= half && lane < 2 * half) {
#pragma unroll
        for (int k = 0; k < kPack; ++k) mine[k * kThreads] = sum[k];
      }
      __syncthreads();
      if (adds && lane < half) {
#pragma unroll
        for (int k = 0; k < kPack; ++k) sum[k] += mine[k * kThreads + half * p.width];
      }
      __syncthreads();
    }
    if (adds && lane == 0) {
#pragma unroll
      for (int k = 0; k < kPack; ++k) v.sums[channel + k] = sum[k];
    }
  }
}

template <int kPack, class T>
__device__ __forceinline__ float Dot(const T* row, const float* vector, int elems, int lane, int lanes) {
  float sum = 0;
#pragma unroll 4
  for (int i = lane * kPack; i < elems; i += lanes * kPack) {
    const Pack<T, kPack> pack = LoadPack<kPack>(row + i);
#pragma unroll
    for (int k = 0; k < kPack; ++k) sum += ToFloat(pack.value[k]) * vector[i + k];
  }
  return sum;
}

// The block's share of the outputs, then everybody's.
template <class T>
__device__ __forceinline__ void Apply(const Layer& layer, int blocks, int rank, const float* inputs, float* outputs) {
  const int lane = static_cast<int>(threadIdx.x) % layer.lanes, groups = kThreads / layer.lanes;
  const int begin = rank * layer.share, end = device::Min(begin + layer.share, layer.outputs);
  for (int first = begin; first < end; first += groups) {
    const int output = first + static_cast<int>(threadIdx.x) / layer.lanes;
    const T* const row = static_cast<const T*>(layer.weights) + int64_t{output} * layer.inputs;
    float sum = 0;
    if (output < end) {
      sum = layer.in_packs ? Dot<kChannelPack>(row, inputs, layer.inputs, lane, layer.lanes)
                           : Dot<1>(row, inputs, layer.inputs, lane, layer.lanes);
    }
    for (int offset = layer.lanes / 2; offset > 0; offset /= 2) sum += __shfl_xor_sync(device::kFullWarp, sum, offset);
    if (output >= end || lane != 0) continue;
    if (layer.bias != nullptr) sum += ToFloat(static_cast<const T*>(layer.bias)[output]);
    outputs[output] = Activate(layer.activation, layer.parameters, sum);
  }
  device::ClusterBarrier();
  for (int i = static_cast<int>(threadIdx.x) * kWord; blocks > 1 && i < layer.outputs; i += kThreads * kWord) {
    const int owner = i / layer.share;
    if (owner == rank) continue;
    StorePack(outputs + i, device::LoadFromCluster<Pack<float, kWord>>(outputs + i, static_cast<unsigned>(owner)));
  }
  __syncthreads();
}

// The means of the image, of all blocks' sums.
__device__ __forceinline__ void MakeMeans(const Arguments& p, const Vectors& v) {
  const float pixels = static_cast<float>(p.pixels);
  for (int i = static_cast<int>(threadIdx.x) * kWord; i < p.channels; i += kThreads * kWord) {
    Pack<float, kWord> sum{};
    for (int block = 0; block < p.blocks; ++block) {
      const auto part = device::LoadFromCluster<Pack<float, kWord>>(v.sums + i, static_cast<unsigned>(block));
#pragma unroll
      for (int k = 0; k < kWord; ++k) sum.value[k] += part.value[k];
    }
#pragma unroll
    for (int k = 0; k < kWord; ++k) sum.value[k] /= pixels;
    StorePack(v.means + i, sum);
  }
  __syncthreads();
}

template <int kPack, class T>
__device__ __forceinline__ void ScalePixels(const Arguments& p, const T* image, T* result, int64_t begin, int64_t end,
                                            const float* gates) {
  const int place = static_cast<int>(threadIdx.x) % p.width, lane = static_cast<int>(threadIdx.x) / p.width;
  for (int first = 0; first < p.channels; first += p.width * kPack) {
    const int channel = first + place * kPack;
    if (lane >= p.lanes || channel >= p.channels) continue;
    float gate[kPack];
#pragma unroll
    for (int k = 0; k < kPack; ++k) gate[k] = gates[channel + k];
#pragma unroll 4
    for (int64_t pixel = begin + lane; pixel < end; pixel += p.lanes) {
      const int64_t at = pixel * p.channels + channel;
      Pack<T, kPack> pack = LoadPack<kPack>(image + at);
#pragma unroll
      for (int k = 0; k < kPack; ++k) pack.value[k] = Store<T>(ToFloat(pack.value[k]) * gate[k]);
      StorePack(result + at, pack);
    }
  }
}

template <int kPack, class T>
__global__ void __launch_bounds__(kThreads) SqueezeExciteKernel(__grid_constant__ const Arguments p) {
  device::GridDependencyWait();
  TriggerDependentsOfSmallGrid();
  const Vectors v = Place(p);
  const int rank = static_cast<int>(blockIdx.x) % p.blocks;
  const int64_t image = blockIdx.x / static_cast<unsigned>(p.blocks) * p.pixels * p.channels;
  const int64_t begin = rank * p.share, end = device::Min(begin + p.share, p.pixels);
  const T* const x = static_cast<const T*>(p.x) + image;
  SumPixels<kPack>(p, x, begin, end, v);
  device::ClusterBarrier();
  MakeMeans(p, v);
  Apply<T>(p.first, p.blocks, rank, v.means, v.squeezed);
  Apply<T>(p.second, p.blocks, rank, v.squeezed, v.gates);
  ScalePixels<kPack>(p, x, static_cast<T*>(p.y) + image, begin, end, v.gates);
  if (p.blocks > 1) device::ClusterBarrier();  // the others have read this block's gates
}

Layer LayerOf(const void* weights, const void* bias, int inputs, int outputs, int blocks, Activation activation,
              ActivationParameters parameters) {
  const bool in_packs = inputs % kChannelPack == 0 && IsAligned(weights, kPackBytes);
  const int loads = in_packs ? inputs / kChannelPack : inputs;
  return {.weights = weights,
          .bias = bias,
          .inputs = inputs,
          .outputs = outputs,
          .share = Words(CeilDiv(outputs, blocks)),
          .lanes = std::min(32, static_cast<int>(std::bit_ceil(static_cast<unsigned>(CeilDiv(loads, 2))))),
          .parameters = parameters,
          .activation = activation,
          .in_packs = in_packs,
          .unused = {}};
}

template <int kPack, class T>
Status LaunchOf(const SqueezeExcite& problem, int blocks, const SqueezeExcitePointers& at, device::Stream stream) {
  const int packs = problem.channels / kPack, width = std::min(packs, kThreads);
  const Arguments arguments{.x = at.x,
                            .y = at.y,
                            .pixels = problem.pixels,
                            .share = CeilDiv<int64_t>(problem.pixels, blocks),
                            .channels = problem.channels,
                            .blocks = blocks,
                            .width = width,
                            .lanes = static_cast<int32_t>(std::bit_floor(static_cast<unsigned>(kThreads / width))),
                            .first = LayerOf(at.w1, at.b1, problem.channels, problem.squeezed, blocks, problem.first,
                                             problem.first_parameters),
                            .second = LayerOf(at.w2, at.b2, problem.squeezed, problem.channels, blocks, problem.second,
                                              problem.second_parameters)};
  const int behind_sums = std::max(2 * Words(problem.channels) + Words(problem.squeezed), kThreads * kPack);
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(problem.batch * blocks);
  config.cluster.x = static_cast<unsigned>(blocks);
  config.block.x = kThreads;
  config.shared_bytes = sizeof(float) * static_cast<size_t>(Words(problem.channels) + behind_sums);
  config.programmatic = true;
  return device::Launch(SqueezeExciteKernel<kPack, T>, config, stream, arguments);
}

template <class T>
Status LaunchOf(const SqueezeExcite& problem, int blocks, const SqueezeExcitePointers& at, device::Stream stream) {
  const bool in_packs =
      problem.channels % kChannelPack == 0 && IsAligned(at.x, kPackBytes) && IsAligned(at.y, kPackBytes);
  return in_packs ? LaunchOf<kChannelPack, T>(problem, blocks, at, stream)
                  : LaunchOf<1, T>(problem, blocks, at, stream);
}

}  // namespace

bool SharesImages(const device::DeviceInfo& device) { return device.major >= 9 && !device.simulated; }

int SqueezeExciteBlocks(const SqueezeExcite& problem, const device::DeviceInfo& device) {
  if (!SharesImages(device)) return 1;
  int blocks = kMostBlocks;
  while (blocks > 1 && (problem.batch * blocks > 2 * device.multiprocessors || problem.pixels < blocks)) blocks /= 2;
  return blocks;
}

Status LaunchSqueezeExcite(const SqueezeExcite& problem, int blocks, const SqueezeExcitePointers& at,
                           device::Stream stream) {
  if (problem.batch == 0 || problem.pixels == 0 || problem.channels == 0) return Status::Ok();
  if (problem.channels > kMostExcited || problem.squeezed > kMostExcited || problem.squeezed < 1) {
    return NotSupported("squeezing ", problem.channels, " channels to ", problem.squeezed, "; 1 to ", kMostExcited,
                        " are offered");
  }
  if (!FitsInt32(problem.batch * blocks)) return NotSupported(problem.batch, " images");
  return problem.type == DataType::kFloat16 ? LaunchOf<Half>(problem, blocks, at, stream)
                                            : LaunchOf<BFloat16>(problem, blocks, at, stream);
}

}  // namespace cudaep::kernels
