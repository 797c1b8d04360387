#include "core/checked_math.h"
#include "device/launch.h"
#include "test_kernels.h"

namespace cudaep::device::testing {
namespace {

template <class T>
struct alignas(16) Pack {
  T values[16 / sizeof(T)];
};

template <class T>
__global__ void __launch_bounds__(256)
    Add(const T* __restrict__ a, const T* __restrict__ b, T* __restrict__ out, int64_t count) {
  constexpr int kPack = 16 / sizeof(T);
  const int64_t first = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * kPack;
  if (first + kPack <= count) {
    const auto x = *reinterpret_cast<const Pack<T>*>(a + first);
    const auto y = *reinterpret_cast<const Pack<T>*>(b + first);
    Pack<T> z;
#pragma unroll
    for (int k = 0; k < kPack; ++k) z.values[k] = Store<T>(Load(x.values[k]) + Load(y.values[k]));
    *reinterpret_cast<Pack<T>*>(out + first) = z;
  } else {
    for (int64_t i = first; i < count; ++i) out[i] = Store<T>(Load(a[i]) + Load(b[i]));
  }
}

struct MaxOf {
  __device__ __forceinline__ float operator()(float a, float b) const { return Max(a, b); }
};
struct SumOf {
  __device__ __forceinline__ float operator()(float a, float b) const { return a + b; }
};

template <class Op>
__device__ __forceinline__ float BlockReduce(float value, float identity, Op op) {
  __shared__ float parts[32];
  const unsigned lane = threadIdx.x & 31, warp = threadIdx.x / 32, warps = CeilDiv(blockDim.x, 32u);
  value = WarpReduce(value, op);
  __syncthreads();  // the parts may still be read by the previous call
  if (lane == 0) parts[warp] = value;
  __syncthreads();
  return WarpReduce(lane < warps ? parts[lane] : identity, op);
}

__global__ void Softmax(const float* in, float* out, int columns) {
  auto* row = DynamicShared<float>();
  in += int64_t{blockIdx.x} * columns;
  out += int64_t{blockIdx.x} * columns;
  const int step = static_cast<int>(blockDim.x);
  float maximum = -INFINITY;
  for (int i = static_cast<int>(threadIdx.x); i < columns; i += step) maximum = Max(maximum, row[i] = in[i]);
  maximum = BlockReduce(maximum, -INFINITY, MaxOf{});
  float sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < columns; i += step) sum += row[i] = FastExp(row[i] - maximum);
  const float scale = 1.0f / BlockReduce(sum, 0.0f, SumOf{});
  for (int i = static_cast<int>(threadIdx.x); i < columns; i += step) out[i] = row[i] * scale;
}

__global__ void Transpose(const float* in, float* out, int rows, int columns) {
  __shared__ float tile[32][33];
  int column = static_cast<int>(blockIdx.x * 32 + threadIdx.x), row = static_cast<int>(blockIdx.y * 32 + threadIdx.y);
  for (int k = 0; k < 32; k += 8) {
    if (column < columns && row + k < rows)
      tile[threadIdx.y + k][threadIdx.x] = in[int64_t{row + k} * columns + column];
  }
  __syncthreads();
  column = static_cast<int>(blockIdx.y * 32 + threadIdx.x);
  row = static_cast<int>(blockIdx.x * 32 + threadIdx.y);
  for (int k = 0; k < 32; k += 8) {
    if (column < rows && row + k < columns) out[int64_t{row + k} * rows + column] = tile[threadIdx.x][threadIdx.y + k];
  }
}

__global__ void Histogram(const int* values, int count, int* counts, int buckets, float* total, int* maximum) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= count) return;
  atomicAdd(&counts[values[i] % buckets], 1);
  atomicAdd(total, 1.0f);
  atomicMax(maximum, values[i]);
}

__global__ void Fill(float* out, float value, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) out[i] = value;
}

__global__ void Work(const float* in, float* out, int repeats) {
  float sum = 0;
  for (int i = 0; i < repeats; ++i) sum += BlockReduce(in[threadIdx.x], 0.0f, SumOf{});
  if (threadIdx.x == 0) out[0] = sum;
}

struct WrittenTensors : Tensors {
  static constexpr bool kWritesThroughPointers = true;
};
__global__ void Double(WrittenTensors tensors) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < tensors.count) tensors.out[i] = 2 * tensors.in[i];
}

__global__ void EarlyExit(int* out, int active) {
  const int thread = static_cast<int>(threadIdx.x);
  if (thread >= active) return;
  const int left = active - thread / 32 * 32;
  const unsigned mask = left >= 32 ? kFullWarp : (1u << left) - 1;
  const unsigned odd = __ballot_sync(mask, thread & 1);
  __syncthreads();
  out[thread] = __popc(odd) + 100 * __shfl_sync(mask, thread, 0);
}

__global__ void PastEnd(float* out, int index) { out[index] = 1; }

__global__ void Stuck(float* out) {
  float value = static_cast<float>(threadIdx.x);
  if (threadIdx.x < 16) {
    value = __shfl_sync(kFullWarp, value, 0);
  } else {
    __syncthreads();
  }
  out[threadIdx.x] = value;
}

__global__ void WrongMask(float* out) { out[threadIdx.x] = __shfl_sync(1u, 1.0f, 0); }

__global__ void ReadOnly(const float* in, int count) {
  float sum = 0;
  for (int i = 0; i < count; ++i) sum += in[i];
  if (sum == 12345.0f) __trap();
}

__global__ void Dependent(const float* in, float* out, int count, Dependence dependence) {
  __shared__ float scale;  // set before the wait, as prefetched constants are
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (threadIdx.x == 0) scale = 1;
  __syncthreads();
  float early = 0;
  if (dependence == Dependence::kReadsFirst && i < count) early = in[i];
  if (dependence != Dependence::kNeverWaits) GridDependencyWait();
  if (i >= count) return;
  out[i] = (dependence == Dependence::kReadsFirst ? early : in[i]) * scale;
}

__global__ void EarlyShared(int* out, int value, int part) {
  __shared__ int early[3][64];
  early[part][threadIdx.x] = value;
  GridDependencyWait();
  __syncthreads();
  out[threadIdx.x] = early[part][threadIdx.x ^ 1];
}

// What thread 0 left in an array of the block before is found by the next one, unless somebody writes first.
__global__ void StaleShared(float* out, bool dynamic, bool initialise) {
  __shared__ float fixed[64];
  float* const shared = dynamic ? DynamicShared<float>() : fixed;
  if (initialise) shared[threadIdx.x] = 0;
  __syncthreads();
  out[blockIdx.x * blockDim.x + threadIdx.x] = shared[threadIdx.x];
  __syncthreads();
  shared[threadIdx.x] = 5;
}

LaunchConfig Linear(int64_t count, unsigned threads) {
  return {.grid = {static_cast<unsigned>(CeilDiv(count, int64_t{threads}))}, .block = {threads}};
}

}  // namespace

template <class T>
Status LaunchAdd(Stream stream, const T* a, const T* b, T* out, int64_t count) {
  return Launch(Add<T>, Linear(CeilDiv(count, static_cast<int64_t>(16 / sizeof(T))), 256), stream, a, b, out, count);
}
template Status LaunchAdd<float>(Stream, const float*, const float*, float*, int64_t);
template Status LaunchAdd<Half>(Stream, const Half*, const Half*, Half*, int64_t);
template Status LaunchAdd<BFloat16>(Stream, const BFloat16*, const BFloat16*, BFloat16*, int64_t);
template Status LaunchAdd<double>(Stream, const double*, const double*, double*, int64_t);

Status LaunchSoftmax(Stream stream, const float* in, float* out, int rows, int columns, int threads) {
  const LaunchConfig config{.grid = {static_cast<unsigned>(rows)},
                            .block = {static_cast<unsigned>(threads)},
                            .shared_bytes = static_cast<size_t>(columns) * sizeof(float)};
  return Launch(Softmax, config, stream, in, out, columns);
}
Status LaunchTranspose(Stream stream, const float* in, float* out, int rows, int columns) {
  const LaunchConfig config{
      .grid = {static_cast<unsigned>(CeilDiv(columns, 32)), static_cast<unsigned>(CeilDiv(rows, 32))},
      .block = {32, 8}};
  return Launch(Transpose, config, stream, in, out, rows, columns);
}
Status LaunchHistogram(Stream stream, const int* values, int count, int* counts, int buckets, float* total,
                       int* maximum) {
  return Launch(Histogram, Linear(count, 128), stream, values, count, counts, buckets, total, maximum);
}
Status LaunchFill(Stream stream, float* out, float value, int count) {
  return Launch(Fill, Linear(count, 128), stream, out, value, count);
}
Status LaunchWork(Stream stream, const float* in, float* out, int repeats) {
  return Launch(Work, {.block = {64}}, stream, in, out, repeats);
}
Status LaunchDouble(Stream stream, const Tensors& tensors) {
  return Launch(Double, Linear(tensors.count, 64), stream, WrittenTensors{tensors});
}
Status LaunchEarlyExit(Stream stream, int* out, int threads, int active) {
  return Launch(EarlyExit, {.block = {static_cast<unsigned>(threads)}}, stream, out, active);
}
Status LaunchPastEnd(Stream stream, float* out, int index) { return Launch(PastEnd, {}, stream, out, index); }
Status LaunchStuck(Stream stream, float* out) { return Launch(Stuck, {.grid = {2}, .block = {32}}, stream, out); }
Status LaunchWrongMask(Stream stream, float* out) { return Launch(WrongMask, {.block = {2}}, stream, out); }
Status LaunchReadOnly(Stream stream, const float* in, int count) { return Launch(ReadOnly, {}, stream, in, count); }
Status LaunchDependent(Stream stream, const float* in, float* out, int count, Dependence dependence) {
  LaunchConfig config = Linear(count, 64);
  config.programmatic = true;
  return Launch(Dependent, config, stream, in, out, count, dependence);
}
Status LaunchEarlyShared(Stream stream, int* out, int value, int part) {
  return Launch(EarlyShared, {.grid = {1}, .block = {64}, .programmatic = true}, stream, out, value, part);
}
Status LaunchStaleShared(Stream stream, float* out, bool dynamic, bool initialise, int blocks) {
  return Launch(StaleShared,
                {.grid = {static_cast<unsigned>(blocks)}, .block = {64}, .shared_bytes = 64 * sizeof(float)}, stream,
                out, dynamic, initialise);
}
Status LaunchBadBlock(Stream stream, float* out, unsigned threads) {
  return Launch(Fill, {.block = {threads}}, stream, out, 0.0f, 1);
}

}  // namespace cudaep::device::testing
