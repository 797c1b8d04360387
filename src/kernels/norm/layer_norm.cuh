// The kernels of layer and RMS normalisation, and their launcher for one pair of types.
#pragma once

#include "core/checked_math.h"
#include "device/cluster.h"
#include "kernels/common/moments.cuh"
#include "kernels/common/raw_pack.cuh"
#include "kernels/common/row_plan.h"
#include "kernels/common/row_reduce.cuh"
#include "kernels/norm/layer_norm.h"
#include "kernels/softmax/copy_ring.cuh"

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
  // Whole words: padding would hold whatever the stack did.
  int32_t rms, double_statistics;
  int64_t constant_affine;  // scale, beta and bias may be read before earlier kernels have ended
};

template <class T>
struct LayerNormOutput {
  void* y;
  T* sum;
  void* mean;
  void* inv_std;
};

// A scale or shift of one row, or of all rows.
template <int kPack, class V>
__device__ __forceinline__ RawPack<V, kPack> LoadAffine(const V* from, const AffineMap& map, int64_t row, int column,
                                                        int32_t elems) {
  if (map.rows > 1) from += row / map.row_repeat % map.rows * map.columns;
  if constexpr (kPack == 1) {  // packs are planned for whole rows only
    if (map.columns != elems) return LoadRaw<1>(from + column / map.column_repeat % map.columns);
  }
  return LoadRaw<kPack>(from + column);
}

template <class T, class V, class C>
__device__ __forceinline__ void WriteStatistic(const LayerNormInput<T, V>& in, void* out, int64_t row, C value) {
  if (out == nullptr) return;
  if (in.double_statistics) {
    static_cast<double*>(out)[row] = value;
  } else {
    static_cast<float*>(out)[row] = static_cast<float>(value);
  }
}

// Where the calling thread's packs of a row are: kPacks of them, `step` apart, from `first` on. A row is cut into
// pieces of a warp (or of its threads, where those are fewer), the pieces of a cluster's blocks one behind the other.
template <int kPacks>
struct NormThread {
  int step, first, piece, left;  // `piece`: the first pack of the warp's piece; `left`: from `first` to the row's end
  unsigned lanes, part, parts;   // threads of a piece; the piece's number, of how many

  __device__ __forceinline__ explicit NormThread(int row_packs) {
    lanes = device::Min(blockDim.x, 32u);
    const unsigned warps = blockDim.x / lanes;
    parts = warps * device::ClusterBlocks();
    part = device::ClusterRank() * warps + threadIdx.x / lanes;
    step = static_cast<int>(lanes);
    piece = static_cast<int>(part) * step * kPacks;
    first = piece + static_cast<int>(threadIdx.x % lanes);
    left = row_packs - first;
  }
  __device__ __forceinline__ bool Has(int j) const { return j * step < left; }
  // Elements of piece number `index`.
  __device__ __forceinline__ int ElemsOf(unsigned index, int row_packs, int pack) const {
    const int begin = static_cast<int>(index) * step * kPacks;
    return device::Min(device::Max(row_packs - begin, 0), step * kPacks) * pack;
  }
};

// The rows of a block on their way, in registers: one row.
template <class T, int kPack, int kPacks, bool kSkip>
class DirectRows {
 public:
  using Raw = RawPack<T, kPack>;
  __device__ __forceinline__ DirectRows(const NormThread<kPacks>& thread, int /*depth*/) : thread_(thread) {}

  __device__ __forceinline__ void Fetch(const T* x, const T* skip) {
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
      if (!thread_.Has(j)) continue;
      const int64_t at = static_cast<int64_t>(thread_.first + j * thread_.step) * kPack;
      x_[j] = LoadRaw<kPack>(x + at);
      if constexpr (kSkip) skip_[j] = LoadRaw<kPack>(skip + at);
    }
  }
  __device__ __forceinline__ void TakeX(Raw (&raw)[kPacks]) {
#pragma unroll
    for (int j = 0; j < kPacks; ++j) raw[j] = x_[j];
  }
  __device__ __forceinline__ void TakeSkip(Raw (&raw)[kPacks]) {
#pragma unroll
    for (int j = 0; j < kPacks; ++j) raw[j] = skip_[j];
  }
  static __device__ __forceinline__ int Depth(int /*depth*/) { return 1; }

 private:
  const NormThread<kPacks>& thread_;
  Raw x_[kPacks] = {}, skip_[kSkip ? kPacks : 1] = {};
};

// The same in shared memory: `depth` rows.
template <class T, int kPack, int kPacks, bool kSkip>
class RingRows {
 public:
  using Raw = RawPack<T, kPack>;
  static constexpr int kTensors = kSkip ? 2 : 1;

  __device__ __forceinline__ RingRows(const NormThread<kPacks>& thread, int depth)
      : thread_(thread), ring_(Slots(depth), Barriers(), depth * kTensors) {}

  __device__ __forceinline__ void Fetch(const T* x, const T* skip) {
    const int64_t at = static_cast<int64_t>(thread_.piece) * kPack;
    const int packs = device::Min(thread_.left + static_cast<int>(threadIdx.x % 32), 32 * kPacks);
    ring_.Push(x + at, packs);
    if constexpr (kSkip) ring_.Push(skip + at, packs);
  }
  __device__ __forceinline__ void TakeX(Raw (&raw)[kPacks]) {
    ring_.Wait(cursor_);
    ring_.Read(cursor_, raw);
    ring_.Advance(cursor_);
  }
  __device__ __forceinline__ void TakeSkip(Raw (&raw)[kPacks]) { TakeX(raw); }
  static __device__ __forceinline__ int Depth(int depth) { return depth; }

 private:
  using Ring = CopyRing<Raw, kPacks, 32 * kPacks>;
  static __device__ __forceinline__ unsigned Warp() { return (threadIdx.y * blockDim.x + threadIdx.x) / 32; }
  static __device__ __forceinline__ Raw* Slots(int depth) {
    return device::DynamicShared<Raw>() + static_cast<int>(Warp()) * depth * kTensors * 32 * kPacks;
  }
  static __device__ __forceinline__ device::CopyBarrier* Barriers() {
    __shared__ device::CopyBarrier barriers[kNormThreads / 32][kNormSlots];
    return barriers[Warp()];
  }

  const NormThread<kPacks>& thread_;
  Ring ring_;
  typename Ring::Cursor cursor_;
};

// Rows that their threads hold in registers, one after the other. One barrier a row, of the block or of the cluster,
// and none where a row belongs to one warp.
template <class T, class V, int kPack, int kPacks, bool kSkip, class Rows>
__global__ void __launch_bounds__(kNormThreads)
    LayerNormRowsKernel(const __grid_constant__ LayerNormInput<T, V> in, const LayerNormOutput<T> out, int depth) {
  using C = ComputeType<T>;
  constexpr int kMaxParts = kNormThreads / 32 * kNormCluster, kPartsOfLane = kMaxParts / 32;
  __shared__ C part_mean[2][kMaxParts];
  __shared__ C part_squares[2][kMaxParts];
  const NormThread<kPacks> thread(in.row_packs);
  const unsigned cluster = device::ClusterBlocks();
  const auto column_of = [&](int j) { return (thread.first + j * thread.step) * kPack; };

  RawPack<V, kPack> scale[kPacks] = {}, beta[kPacks] = {};
  RawPack<T, kPack> bias[kSkip ? kPacks : 1] = {};
  const auto load_affine = [&](int64_t row) {
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
      if (!thread.Has(j)) continue;
      scale[j] = LoadAffine<kPack>(in.scale, in.scale_map, row, column_of(j), in.elems);
      if (in.beta != nullptr) beta[j] = LoadAffine<kPack>(in.beta, in.beta_map, row, column_of(j), in.elems);
    }
  };
  const auto load_constants = [&] {
    load_affine(0);
    if constexpr (kSkip) {
#pragma unroll
      for (int j = 0; j < kPacks; ++j) {
        if (in.bias != nullptr && thread.Has(j)) bias[j] = LoadRaw<kPack>(in.bias + column_of(j));
      }
    }
  };
  if (in.constant_affine) load_constants();
  Rows rows(thread, depth);
  device::GridDependencyWait();
  if (!in.constant_affine) load_constants();
  if (cluster > 1) device::ClusterBarrier();  // all of its blocks are there

  const int64_t stride = static_cast<int64_t>(gridDim.x / cluster) * blockDim.y;
  int64_t base = static_cast<int64_t>(blockIdx.x / cluster) * blockDim.y;
  const auto fetch = [&](int64_t from) {
    const int64_t row = from + threadIdx.y;
    if (row >= in.rows) return;
    rows.Fetch(in.x + row * in.elems, kSkip ? in.skip + row % in.skip_rows * in.elems : nullptr);
  };
  int64_t next = base;
  for (int i = 0; i < Rows::Depth(depth); ++i, next += stride) fetch(next);

  // What the merging of the parts needs, the same for every row.
  C own_count = 0, count[kPartsOfLane];
#pragma unroll
  for (int j = 0; j < kPacks; ++j) own_count += thread.Has(j) ? C(kPack) : C(0);
  const int part_elems = thread.ElemsOf(thread.part, in.row_packs, kPack);
  const C inverse_part = part_elems == 0 ? C(0) : C(1) / static_cast<C>(part_elems);
  const C inverse_elems = C(1) / static_cast<C>(in.elems);
  const unsigned lane = threadIdx.x % 32;
  unsigned merging_lanes = 1;
  while (merging_lanes < device::Min(thread.parts, 32u)) merging_lanes *= 2;
#pragma unroll
  for (int i = 0; i < kPartsOfLane; ++i) {
    const unsigned part = (lane & (merging_lanes - 1)) + i * 32;
    count[i] = part < thread.parts ? static_cast<C>(thread.ElemsOf(part, in.row_packs, kPack)) : C(0);
  }
  const bool by_row = in.scale_map.rows > 1 || (in.beta != nullptr && in.beta_map.rows > 1);

#pragma unroll 1
  for (int parity = 0; base < in.rows; base += stride, next += stride, parity ^= 1) {
    const int64_t row = base + threadIdx.y;
    const bool active = row < in.rows;
    C value[kPacks][kPack] = {};
    if (active) {
      RawPack<T, kPack> raw[kPacks];
      rows.TakeX(raw);
#pragma unroll
      for (int j = 0; j < kPacks; ++j) {
        if (thread.Has(j)) UnpackCompute<T, kPack>(raw[j], value[j]);
      }
      if constexpr (kSkip) {
        rows.TakeSkip(raw);
#pragma unroll
        for (int j = 0; j < kPacks; ++j) {
          if (!thread.Has(j)) continue;
          C term[2][kPack];
          UnpackCompute<T, kPack>(raw[j], term[0]);
          UnpackCompute<T, kPack>(bias[j], term[1]);
#pragma unroll
          for (int k = 0; k < kPack; ++k) value[j][k] += term[0][k] + term[1][k];
          if (out.sum == nullptr) continue;
          StoreWords<kPack>(out.sum + row * in.elems + column_of(j), PackCompute<T, kPack>(value[j]));
        }
      }
    }
    fetch(next);

    // Around the mean of the warp's piece, then of the row.
    C mean = 0, squares = 0;
    if (!in.rms) {
#pragma unroll
      for (int j = 0; j < kPacks; ++j) {
#pragma unroll
        for (int k = 0; k < kPack; ++k) mean += value[j][k];
      }
      mean = SumOfLanes(mean, thread.lanes) * inverse_part;
    }
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
      if (!thread.Has(j)) continue;
#pragma unroll
      for (int k = 0; k < kPack; ++k) squares += (value[j][k] - mean) * (value[j][k] - mean);
    }
    squares = SumOfLanes(squares, thread.lanes);
    if (thread.parts > 1) {
      if constexpr (std::is_same_v<C, float>) {
        if (lane < cluster) {
          device::StoreToCluster(&part_mean[parity][thread.part], lane, mean);
          device::StoreToCluster(&part_squares[parity][thread.part], lane, squares);
        }
      } else if (lane == 0) {
        part_mean[parity][thread.part] = mean;
        part_squares[parity][thread.part] = squares;
      }
      if (cluster > 1) {
        device::ClusterBarrier();
      } else {
        __syncthreads();
      }
      C means[kPartsOfLane], all_squares[kPartsOfLane];
#pragma unroll
      for (int i = 0; i < kPartsOfLane; ++i) {
        const unsigned part = (lane & (merging_lanes - 1)) + i * 32;
        means[i] = part < thread.parts ? part_mean[parity][part] : C(0);
        all_squares[i] = part < thread.parts ? part_squares[parity][part] : C(0);
      }
      MergeMoments<kPartsOfLane>(count, means, all_squares, inverse_elems, merging_lanes, in.rms, mean, squares);
    }
    if (!active) continue;
    const C inv_std = C(1) / std::sqrt(squares * inverse_elems + static_cast<C>(in.epsilon));
    if (thread.first == 0) {
      WriteStatistic(in, out.mean, row, mean);
      WriteStatistic(in, out.inv_std, row, inv_std);
    }
    if (by_row) load_affine(row);
    KeepPacked(scale);
    KeepPacked(beta);
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
      if (!thread.Has(j)) continue;
      ComputeType<V> factor[kPack], term[kPack];
      UnpackCompute<V, kPack>(scale[j], factor);
      UnpackCompute<V, kPack>(beta[j], term);
#pragma unroll
      for (int k = 0; k < kPack; ++k) {
        term[k] = static_cast<ComputeType<V>>((value[j][k] - mean) * inv_std * factor[k] + term[k]);
      }
      StoreWords<kPack>(static_cast<V*>(out.y) + row * in.elems + column_of(j), PackCompute<V, kPack>(term));
    }
  }
}

// One row for each block, read twice.
template <class T, class V, int kPack>
__global__ void __launch_bounds__(kStreamThreads)
    LayerNormStreamKernel(const __grid_constant__ LayerNormInput<T, V> in, const LayerNormOutput<T> out) {
  using C = ComputeType<T>;
  constexpr int kInFlight = kPack == 1 ? 8 : 4;  // independent loads of a thread, to cover the latency of memory
  __shared__ C mean_scratch[kMaxRowWarps];
  __shared__ C square_scratch[kMaxRowWarps];
  device::GridDependencyWait();
  const int64_t row = blockIdx.x;
  const T* const x = in.x + row * in.elems;
  const T* const skip = in.skip == nullptr ? nullptr : in.skip + row % in.skip_rows * in.elems;
  const auto load = [&](int pack) { return LoadRaw<kPack>(x + static_cast<int64_t>(pack) * kPack); };
  // x + skip + bias of one pack, whose x is there.
  const auto compute = [&](const RawPack<T, kPack>& raw, int pack, C* value) {
    const int column = pack * kPack;
    UnpackCompute<T, kPack>(raw, value);
    for (const T* const more : {skip, in.bias}) {
      if (more == nullptr) continue;
      C term[kPack];
      UnpackCompute<T, kPack>(LoadRaw<kPack>(more + column), term);
#pragma unroll
      for (int k = 0; k < kPack; ++k) value[k] += term[k];
    }
  };
  const int step = static_cast<int>(blockDim.x), first = static_cast<int>(threadIdx.x);
  const int whole = in.row_packs / (kInFlight * step) * (kInFlight * step);  // packs in full rounds
  C value[kInFlight][kPack];
  RawPack<T, kPack> raw[kInFlight];

  Moments<C> moments;
  for (int pack = first; pack < whole; pack += kInFlight * step) {
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) raw[j] = load(pack + j * step);
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) compute(raw[j], pack + j * step, value[j]);
    moments.template Add<kInFlight * kPack>(value[0], in.rms);
  }
  for (int pack = whole + first; pack < in.row_packs; pack += step) {
    compute(load(pack), pack, value[0]);
    moments.template Add<kPack>(value[0], in.rms);
  }
  const C elems = static_cast<C>(in.elems);
  const C mean = RowReduce(moments.mean * moments.count, AddOp(), mean_scratch) / elems;
  const C delta = moments.mean - mean;
  const C squares = RowReduce(moments.squares + moments.count * delta * delta, AddOp(), square_scratch);
  const C inv_std = C(1) / std::sqrt(squares / elems + static_cast<C>(in.epsilon));
  if (threadIdx.x == 0) {
    WriteStatistic(in, out.mean, row, mean);
    WriteStatistic(in, out.inv_std, row, inv_std);
  }

  const auto write = [&](int pack, const C* values) {
    const int column = pack * kPack;
    ComputeType<V> factor[kPack], term[kPack] = {};
    UnpackCompute<V, kPack>(LoadAffine<kPack>(in.scale, in.scale_map, row, column, in.elems), factor);
    if (in.beta != nullptr) {
      UnpackCompute<V, kPack>(LoadAffine<kPack>(in.beta, in.beta_map, row, column, in.elems), term);
    }
#pragma unroll
    for (int k = 0; k < kPack; ++k) {
      term[k] = static_cast<ComputeType<V>>((values[k] - mean) * inv_std * factor[k] + term[k]);
    }
    if (out.sum != nullptr) StoreWords<kPack>(out.sum + row * in.elems + column, PackCompute<T, kPack>(values));
    StoreWords<kPack>(static_cast<V*>(out.y) + row * in.elems + column, PackCompute<V, kPack>(term));
  };
  for (int pack = first; pack < whole; pack += kInFlight * step) {
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) raw[j] = load(pack + j * step);
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) compute(raw[j], pack + j * step, value[j]);
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) write(pack + j * step, value[j]);
  }
  for (int pack = whole + first; pack < in.row_packs; pack += step) {
    compute(load(pack), pack, value[0]);
    write(pack, value[0]);
  }
}

template <class T, class V>
Status LaunchLayerNormTypes(const LayerNormArgs& args, device::Stream stream) {
  constexpr size_t kWidest = sizeof(T) > sizeof(V) ? sizeof(T) : sizeof(V);
  constexpr int kPack = RowPack(kWidest);
  bool aligned = true;
  for (const void* p : {args.x, args.skip, args.bias, static_cast<const void*>(args.sum)}) {
    aligned = aligned && IsAligned(p, kPack * sizeof(T));
  }
  for (const void* p : {args.scale, args.beta, static_cast<const void*>(args.y)}) {
    aligned = aligned && IsAligned(p, kPack * sizeof(V));
  }
  const NormPlan& plan = aligned ? args.plans->packed : args.plans->single;
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
                                .rms = args.rms ? 1 : 0,
                                .double_statistics = args.double_statistics ? 1 : 0,
                                .constant_affine = args.constant_affine ? 1 : 0};
  const LayerNormOutput<T> out{args.y, static_cast<T*>(args.sum), args.mean, args.inv_std};
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(plan.blocks);
  config.block = {plan.width, plan.rows_per_block, 1};
  config.cluster.x = plan.cluster;
  config.programmatic = true;
  const auto stream_rows = [&](auto kernel) { return device::Launch(kernel, config, stream, in, out); };
  const auto rows = [&](auto kernel) { return device::Launch(kernel, config, stream, in, out, plan.depth); };
  const auto direct = [&]<int kPackElems, int kPacks>() {
    return args.skip == nullptr
               ? rows(LayerNormRowsKernel<T, V, kPackElems, kPacks, false, DirectRows<T, kPackElems, kPacks, false>>)
               : rows(LayerNormRowsKernel<T, V, kPackElems, kPacks, true, DirectRows<T, kPackElems, kPacks, true>>);
  };
  if (plan.pack == 1) {
    if (plan.kind == NormPlan::Kind::kStream) return stream_rows(LayerNormStreamKernel<T, V, 1>);
    return direct.template operator()<1, kScalarPacks>();
  }
  if constexpr (kPack > 1) {
    if (plan.kind == NormPlan::Kind::kStream) return stream_rows(LayerNormStreamKernel<T, V, kPack>);
    if (plan.kind == NormPlan::Kind::kDirect) {
      return plan.packs_per_thread == 1 ? direct.template operator()<kPack, 1>()
                                        : direct.template operator()<kPack, kNormPacks>();
    }
    if constexpr (std::is_same_v<T, V>) {
      const int tensors = args.skip == nullptr ? 1 : 2;
      config.shared_bytes = static_cast<size_t>(plan.depth) * static_cast<size_t>(tensors) * plan.width *
                            plan.rows_per_block * kNormPacks * kPackBytes;
      return args.skip == nullptr
                 ? rows(LayerNormRowsKernel<T, V, kPack, kNormPacks, false, RingRows<T, kPack, kNormPacks, false>>)
                 : rows(LayerNormRowsKernel<T, V, kPack, kNormPacks, true, RingRows<T, kPack, kNormPacks, true>>);
    }
  }
  return InvalidArgument("no such plan for normalisation of ", args.elems, " elements");
}

}  // namespace cudaep::kernels
