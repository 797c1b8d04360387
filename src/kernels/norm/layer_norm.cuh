// The kernels of layer and RMS normalisation, and their launcher for one pair of types.
#pragma once

#include "core/checked_math.h"
#include "kernels/common/raw_pack.cuh"
#include "kernels/common/row_reduce.cuh"
#include "kernels/norm/layer_norm.h"

namespace cudaep::kernels {

// What the kernels read, and the sizes. Outputs are arguments of their own, so that they count as written.
template <class T, class V>
struct LayerNormInput {
  const T* x;
  const T* skip;
  const T* bias;
  const V* scale;
  const V* beta;
  int64_t rows, skip_rows;
  int32_t elems, row_packs;
  AffineMap scale_map, beta_map;
  double epsilon;
  int32_t rms, double_statistics;  // whole words: padding would hold whatever the stack did
};

// One row as its threads see it.
template <class T, class V, int kPack>
struct LayerNormRow {
  using C = ComputeType<T>;
  const LayerNormInput<T, V>& in;
  int64_t row;
  const T* x;
  const T* skip;

  __device__ __forceinline__ LayerNormRow(const LayerNormInput<T, V>& input, int64_t index)
      : in(input),
        row(index),
        x(input.x + index * input.elems),
        skip(input.skip == nullptr ? nullptr : input.skip + index % input.skip_rows * input.elems) {}

  __device__ __forceinline__ RawPack<T, kPack> LoadX(int pack) const {
    return LoadRaw<kPack>(x + static_cast<int64_t>(pack) * kPack);
  }

  // x + skip + bias of one pack, whose x is there; written to `sum` unless that is null.
  __device__ __forceinline__ void Sum(const RawPack<T, kPack>& raw, int pack, T* sum, C* value) const {
    const int64_t column = static_cast<int64_t>(pack) * kPack;
    const Pack<T, kPack> x_pack = Unpack<T, kPack>(raw);
#pragma unroll
    for (int k = 0; k < kPack; ++k) value[k] = Load(x_pack.value[k]);
    if (skip != nullptr) Add(skip + column, value);
    if (in.bias != nullptr) Add(in.bias + column, value);
    if (sum == nullptr) return;
    Pack<T, kPack> result;
#pragma unroll
    for (int k = 0; k < kPack; ++k) result.value[k] = Store<T>(value[k]);
    StoreRaw<kPack>(sum + row * in.elems + column, result);
  }

  __device__ __forceinline__ void Write(int pack, C mean, C inv_std, const C* value, V* y) const {
    const int column = pack * kPack;
    const Pack<V, kPack> scale = LoadAffine(in.scale, in.scale_map, column);
    Pack<V, kPack> result;
    if (in.beta == nullptr) {
#pragma unroll
      for (int k = 0; k < kPack; ++k) {
        result.value[k] = Round((value[k] - mean) * inv_std * Load(scale.value[k]));
      }
    } else {
      const Pack<V, kPack> beta = LoadAffine(in.beta, in.beta_map, column);
#pragma unroll
      for (int k = 0; k < kPack; ++k) {
        result.value[k] = Round((value[k] - mean) * inv_std * Load(scale.value[k]) + Load(beta.value[k]));
      }
    }
    StoreRaw<kPack>(y + row * in.elems + column, result);
  }

  __device__ __forceinline__ void WriteStatistic(void* out, C value) const {
    if (out == nullptr || threadIdx.x != 0) return;
    if (in.double_statistics) {
      static_cast<double*>(out)[row] = value;
    } else {
      static_cast<float*>(out)[row] = static_cast<float>(value);
    }
  }

 private:
  static __device__ __forceinline__ V Round(C value) { return Store<V>(static_cast<ComputeType<V>>(value)); }

  static __device__ __forceinline__ void Add(const T* from, C* value) {
    const Pack<T, kPack> pack = Unpack<T, kPack>(LoadRaw<kPack>(from));
#pragma unroll
    for (int k = 0; k < kPack; ++k) value[k] += Load(pack.value[k]);
  }

  __device__ __forceinline__ Pack<V, kPack> LoadAffine(const V* from, const AffineMap& map, int column) const {
    if (map.rows > 1) from += row / map.row_repeat % map.rows * map.columns;
    if constexpr (kPack == 1) {  // packs are planned for whole rows only
      if (map.columns != in.elems) return {from[column / map.column_repeat % map.columns]};
    }
    return Unpack<V, kPack>(LoadRaw<kPack>(from + column));
  }
};

// One row at a time for each blockDim.x threads, kept in registers, while the next one is on its way; the variance in a
// second sweep over the registers.
template <class T, class V, int kPack, int kPacks>
__global__ void __launch_bounds__(kMaxRowThreads)
    LayerNormResidentKernel(LayerNormInput<T, V> in, V* y, T* sum, void* mean_out, void* inv_std_out, int iterations) {
  using C = ComputeType<T>;
  using Row = LayerNormRow<T, V, kPack>;
  __shared__ C mean_scratch[kMaxRowWarps];
  __shared__ C square_scratch[kMaxRowWarps];
  device::GridDependencyWait();
  const auto pack_of = [](int j) { return static_cast<int>(threadIdx.x + j * blockDim.x); };
  int64_t index = static_cast<int64_t>(blockIdx.x) * iterations * blockDim.y + threadIdx.y;
  RawPack<T, kPack> next[kPacks] = {};
  const auto fetch = [&](int64_t from) {
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
      if (from < in.rows && pack_of(j) < in.row_packs) next[j] = Row(in, from).LoadX(pack_of(j));
    }
  };
  fetch(index);

#pragma unroll 1
  for (int i = 0; i < iterations; ++i, index += blockDim.y) {
    const Row row(in, index);
    const int packs = index < in.rows ? in.row_packs : 0;
    C value[kPacks][kPack] = {};
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
      if (pack_of(j) < packs) row.Sum(next[j], pack_of(j), sum, value[j]);
    }
    if (i + 1 < iterations) fetch(index + blockDim.y);
    C mean = 0;
    if (!in.rms) {
#pragma unroll
      for (int j = 0; j < kPacks; ++j) {
#pragma unroll
        for (int k = 0; k < kPack; ++k) mean += value[j][k];
      }
      mean = RowReduce(mean, AddOp(), mean_scratch) / static_cast<C>(in.elems);
    }
    C squares = 0;
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
      if (pack_of(j) >= packs) continue;
#pragma unroll
      for (int k = 0; k < kPack; ++k) squares += (value[j][k] - mean) * (value[j][k] - mean);
    }
    // A barrier lies between two uses of each array: without a mean they take turns.
    C* const scratch = in.rms && i % 2 == 1 ? mean_scratch : square_scratch;
    const C variance = RowReduce(squares, AddOp(), scratch) / static_cast<C>(in.elems);
    const C inv_std = C(1) / std::sqrt(variance + static_cast<C>(in.epsilon));
    if (packs == 0) continue;
    row.WriteStatistic(mean_out, mean);
    row.WriteStatistic(inv_std_out, inv_std);
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
      if (pack_of(j) < packs) row.Write(pack_of(j), mean, inv_std, value[j], y);
    }
  }
}

// Count, mean and sum of squared deviations of a growing set; T. Chan, G. Golub, R. LeVeque, "Updating Formulae and a
// Pairwise Algorithm for Computing Sample Variances", 1979.
template <class C>
struct Moments {
  C count = 0, mean = 0, squares = 0;

  template <int kElems>
  __device__ __forceinline__ void Add(const C* value, bool rms) {
    C batch_mean = 0, batch_squares = 0;
    if (!rms) {
#pragma unroll
      for (int k = 0; k < kElems; ++k) batch_mean += value[k];
      batch_mean /= kElems;
    }
#pragma unroll
    for (int k = 0; k < kElems; ++k) batch_squares += (value[k] - batch_mean) * (value[k] - batch_mean);
    const C total = count + kElems, delta = batch_mean - mean, share = kElems / total;
    squares += batch_squares + delta * delta * count * share;
    mean += delta * share;
    count = total;
  }
};

// One row for each block, read twice.
template <class T, class V, int kPack>
__global__ void __launch_bounds__(kStreamThreads)
    LayerNormStreamKernel(LayerNormInput<T, V> in, V* y, T* sum, void* mean_out, void* inv_std_out, int) {
  using C = ComputeType<T>;
  constexpr int kInFlight = kPack == 1 ? 8 : 4;  // independent loads of a thread, to cover the latency of memory
  __shared__ C mean_scratch[kMaxRowWarps];
  __shared__ C square_scratch[kMaxRowWarps];
  device::GridDependencyWait();
  const LayerNormRow<T, V, kPack> row(in, blockIdx.x);
  const int step = static_cast<int>(blockDim.x), first = static_cast<int>(threadIdx.x);
  const int whole = in.row_packs / (kInFlight * step) * (kInFlight * step);  // packs in full rounds
  C value[kInFlight][kPack];
  RawPack<T, kPack> x[kInFlight];

  Moments<C> moments;
  for (int pack = first; pack < whole; pack += kInFlight * step) {
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) x[j] = row.LoadX(pack + j * step);
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) row.Sum(x[j], pack + j * step, nullptr, value[j]);
    moments.template Add<kInFlight * kPack>(value[0], in.rms);
  }
  for (int pack = whole + first; pack < in.row_packs; pack += step) {
    row.Sum(row.LoadX(pack), pack, nullptr, value[0]);
    moments.template Add<kPack>(value[0], in.rms);
  }
  const C elems = static_cast<C>(in.elems);
  const C mean = RowReduce(moments.mean * moments.count, AddOp(), mean_scratch) / elems;
  const C delta = moments.mean - mean;
  const C squares = RowReduce(moments.squares + moments.count * delta * delta, AddOp(), square_scratch);
  const C inv_std = C(1) / std::sqrt(squares / elems + static_cast<C>(in.epsilon));
  row.WriteStatistic(mean_out, mean);
  row.WriteStatistic(inv_std_out, inv_std);

  for (int pack = first; pack < whole; pack += kInFlight * step) {
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) x[j] = row.LoadX(pack + j * step);
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) row.Sum(x[j], pack + j * step, sum, value[j]);
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) row.Write(pack + j * step, mean, inv_std, value[j], y);
  }
  for (int pack = whole + first; pack < in.row_packs; pack += step) {
    row.Sum(row.LoadX(pack), pack, sum, value[0]);
    row.Write(pack, mean, inv_std, value[0], y);
  }
}

template <class T, class V>
Status LaunchLayerNormTypes(const LayerNormArgs& args, device::Stream stream) {
  constexpr size_t kWidest = sizeof(T) > sizeof(V) ? sizeof(T) : sizeof(V);
  constexpr int kPack = RowPack(kWidest);
  RowPlan plan = args.plan;
  if (plan.pack != 1) {
    bool aligned = true;
    for (const void* p : {args.x, args.skip, args.bias, static_cast<const void*>(args.sum)}) {
      aligned = aligned && IsAligned(p, kPack * sizeof(T));
    }
    for (const void* p : {args.scale, args.beta, static_cast<const void*>(args.y)}) {
      aligned = aligned && IsAligned(p, kPack * sizeof(V));
    }
    if (!aligned) plan = PlanRows(args.rows, args.elems, kWidest, false);
  }
  const LayerNormInput<T, V> in{.x = static_cast<const T*>(args.x),
                                .skip = static_cast<const T*>(args.skip),
                                .bias = static_cast<const T*>(args.bias),
                                .scale = static_cast<const V*>(args.scale),
                                .beta = static_cast<const V*>(args.beta),
                                .rows = args.rows,
                                .skip_rows = args.skip_rows,
                                .elems = static_cast<int32_t>(args.elems),
                                .row_packs = static_cast<int32_t>(args.elems / plan.pack),
                                .scale_map = args.scale_map,
                                .beta_map = args.beta_map,
                                .epsilon = args.epsilon,
                                .rms = args.rms,
                                .double_statistics = args.double_statistics};
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(CeilDiv<int64_t>(args.rows, plan.rows_per_block * plan.iterations));
  config.block = {plan.width, plan.rows_per_block, 1};
  config.programmatic = true;
  const auto launch = [&](auto kernel) {
    return device::Launch(kernel, config, stream, in, static_cast<V*>(args.y), static_cast<T*>(args.sum), args.mean,
                          args.inv_std, plan.iterations);
  };
  if (plan.pack == 1) {
    return plan.resident ? launch(LayerNormResidentKernel<T, V, 1, kScalarPacks>)
                         : launch(LayerNormStreamKernel<T, V, 1>);
  }
  if (!plan.resident) return launch(LayerNormStreamKernel<T, V, kPack>);
  if constexpr (std::is_same_v<T, V>) {  // mixed types do without the variant for small problems
    if (plan.packs_per_thread == 1) return launch(LayerNormResidentKernel<T, V, kPack, 1>);
  }
  return launch(LayerNormResidentKernel<T, V, kPack, ResidentPacks(kWidest)>);
}

}  // namespace cudaep::kernels
