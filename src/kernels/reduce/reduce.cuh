// The one reduction kernel, for any functor (reduce_functors.cuh) and element type.
//
// A thread accumulates every `lanes`-th access of one output (or of kColumnPack adjacent ones); its block combines the
// lanes; the last block of a split reduction merges the partial results of all. Memory bound: each element is read
// once, four accesses of a thread in flight.
#pragma once

#include "core/checked_math.h"
#include "core/data_type_traits.h"
#include "device/launch.h"
#include "kernels/pack.h"
#include "kernels/reduce/reduce_functors.cuh"
#include "kernels/reduce/reduce_limits.h"

namespace cudaep::kernels {

struct ReduceShape {
  ReduceDims kept, reduced;
  int64_t chunk;  // accesses of one split
  int64_t count;
  bool columns;
  ReducePost post;
};

__device__ __forceinline__ int64_t OffsetOf(const ReduceDims& dims, int64_t index) {
  int64_t offset = 0;
  const int outermost = dims.rank - 1;
  if (!dims.wide) {
    uint32_t rest = static_cast<uint32_t>(index), coordinate;
#pragma unroll 1
    for (int i = 0; i < outermost; ++i) {
      rest = dims.divider[i].DivideWithRemainder(rest, &coordinate);
      offset += coordinate * dims.stride[i];
    }
    index = rest;
  } else {
#pragma unroll 1
    for (int i = 0; i < outermost; ++i) {
      const int64_t quotient = index / dims.size[i];
      offset += (index - quotient * dims.size[i]) * dims.stride[i];
      index = quotient;
    }
  }
  return offset + index * dims.stride[device::Max(outermost, 0)];
}

// An access of kPack elements, as words where the functor adds these: packs of bytes are taken apart in registers.
template <int kPack, class F, class T>
__device__ __forceinline__ auto LoadAccess(const T* from) {
  if constexpr (kPack > 1 && requires { typename F::Word; }) {
    using Word = typename F::Word;
    return LoadPack<static_cast<int>(kPack * sizeof(T) / sizeof(Word))>(reinterpret_cast<const Word*>(from));
  } else {
    return LoadPack<kPack>(from);
  }
}

// Adds access number `at`.
template <int kColumnPack, int kPack, class F, class T>
__device__ __forceinline__ void AddPack(const F& f, const Pack<T, kPack>& pack, int64_t at, typename F::Acc* acc) {
  if constexpr (requires { f.template AddWords<kColumnPack>(pack, acc); }) {
    f.template AddWords<kColumnPack>(pack, acc);
  } else {
#pragma unroll
    for (int k = 0; k < kPack; ++k) {
      const int column = kColumnPack == 1 ? 0 : k;
      acc[column] = f.Add(acc[column], Load(pack.value[k]), kColumnPack == 1 ? at * kPack + k : at);
    }
  }
}

template <class F>
concept AddsBatches = requires(const F& f, typename F::Acc acc) {
  f.template AddBatch<1>(acc, static_cast<const ComputeType<typename F::Element>*>(nullptr));
};

// Adds kInFlight accesses at once.
template <int kColumnPack, int kInFlight, int kPack, class F, class T>
__device__ __forceinline__ void AddPacks(const F& f, const Pack<T, kPack> (&pack)[kInFlight], typename F::Acc* acc) {
  constexpr int kOfColumn = kInFlight * kPack / kColumnPack;
#pragma unroll
  for (int column = 0; column < kColumnPack; ++column) {
    ComputeType<T> value[kOfColumn];
#pragma unroll
    for (int i = 0; i < kOfColumn; ++i) {
      value[i] = kColumnPack == 1 ? Load(pack[i / kPack].value[i % kPack]) : Load(pack[i].value[column]);
    }
    acc[column] = f.template AddBatch<kOfColumn>(acc[column], value);
  }
}

template <int kColumnPack, int kPack, class F, class T>
__device__ __forceinline__ void AddOne(const F& f, const Pack<T, kPack>& pack, int64_t at, typename F::Acc* acc) {
  if constexpr (AddsBatches<F>) {
    const Pack<T, kPack> batch[1] = {pack};
    AddPacks<kColumnPack>(f, batch, acc);
  } else {
    AddPack<kColumnPack>(f, pack, at, acc);
  }
}

// A lane's accesses of one output, or of kColumnPack adjacent ones: of those from begin to end every `lanes`-th, in
// each run of the innermost dimension or, where runs are short, across them.
template <int kRowPack, int kColumnPack, class F, class T>
__device__ __forceinline__ void Accumulate(const F& f, const T* base, const ReduceDims& reduced, int64_t begin,
                                           int64_t end, unsigned lane, unsigned lanes, typename F::Acc* acc) {
  constexpr int kInFlight = 4, kPack = kRowPack * kColumnPack;
  using Access = decltype(LoadAccess<kPack, F>(base));
  const bool one_run = reduced.rank <= 1;
  if (!one_run && reduced.size[0] < kInFlight * lanes) {
#pragma unroll 1
    for (int64_t at = begin + lane; at < end; at += lanes) {
      AddOne<kColumnPack>(f, LoadAccess<kPack, F>(base + OffsetOf(reduced, at)), at, acc);
    }
    return;
  }
  const int64_t step = lanes * reduced.stride[0];
#pragma unroll 1
  while (begin < end) {
    const int64_t run_end = one_run ? end : device::Min(end, begin - begin % reduced.size[0] + reduced.size[0]);
    const T* from = base + OffsetOf(reduced, begin) + lane * reduced.stride[0];
    int64_t at = begin + lane;
#pragma unroll 1
    for (; at + (kInFlight - 1) * lanes < run_end; at += kInFlight * lanes, from += kInFlight * step) {
      Access pack[kInFlight];
#pragma unroll
      for (int j = 0; j < kInFlight; ++j) pack[j] = LoadAccess<kPack, F>(from + j * step);
      if constexpr (AddsBatches<F>) {
        AddPacks<kColumnPack>(f, pack, acc);
      } else {
#pragma unroll
        for (int j = 0; j < kInFlight; ++j) AddPack<kColumnPack>(f, pack[j], at + j * lanes, acc);
      }
    }
    Access rest[kInFlight - 1] = {};
#pragma unroll
    for (int j = 0; j < kInFlight - 1; ++j) {
      if (at + j * lanes < run_end) rest[j] = LoadAccess<kPack, F>(from + j * step);
    }
#pragma unroll
    for (int j = 0; j < kInFlight - 1; ++j) {
      if (at + j * lanes < run_end) AddOne<kColumnPack>(f, rest[j], at + j * lanes, acc);
    }
    begin = run_end;
  }
}

// Merges the lanes of each output; lane 0 has the result.
template <int kColumnPack, class F>
__device__ __forceinline__ void CombineLanes(const F& f, bool columns, typename F::Acc* acc) {
  using Acc = typename F::Acc;
  __shared__ Acc scratch[kColumnPack * kReduceThreads];
  if (!columns) {
#pragma unroll 1
    for (unsigned offset = device::Min(blockDim.x, 32u) / 2; offset > 0; offset /= 2) {
      acc[0] = f.Merge(acc[0], ShuffleXor(acc[0], static_cast<int>(offset)));
    }
    if (blockDim.x <= 32) return;
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = acc[0];
    __syncthreads();
    if (threadIdx.x == 0) {
#pragma unroll 1
      for (unsigned warp = 1; warp < blockDim.x / 32; ++warp) acc[0] = f.Merge(acc[0], scratch[warp]);
    }
  } else if (blockDim.y > 1) {
    const unsigned self = threadIdx.y * blockDim.x + threadIdx.x;
#pragma unroll 1
    for (unsigned rows = blockDim.y / 2; rows > 0; rows /= 2) {
      if (threadIdx.y >= rows && threadIdx.y < 2 * rows) {
#pragma unroll
        for (int k = 0; k < kColumnPack; ++k) scratch[k * kReduceThreads + self] = acc[k];
      }
      __syncthreads();
      if (threadIdx.y < rows) {
#pragma unroll
        for (int k = 0; k < kColumnPack; ++k) {
          acc[k] = f.Merge(acc[k], scratch[k * kReduceThreads + self + rows * blockDim.x]);
        }
      }
    }
  }
}

// Leaves this split's result in `partials`; true for the block that comes last, which then sees the others' and has
// put the ticket back to zero.
template <int kColumnPack, class Acc>
__device__ __forceinline__ bool LastToArrive(bool writes, int64_t unit, int64_t units, const Acc* acc, Acc* partials,
                                             unsigned* tickets) {
  __shared__ bool is_last;
  if (writes) {
#pragma unroll
    for (int k = 0; k < kColumnPack; ++k) partials[(blockIdx.y * units + unit) * kColumnPack + k] = acc[k];
  }
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0 && threadIdx.y == 0) {
    is_last = atomicAdd(&tickets[blockIdx.x], 1u) == gridDim.y - 1;
    if (is_last) tickets[blockIdx.x] = 0;
  }
  __syncthreads();
  __threadfence();
  return is_last;
}

template <class F, class T, int kRowPack, int kColumnPack>
__global__ void __launch_bounds__(kReduceThreads)
    ReduceTensorKernel(const F f, const T* x, typename F::Result* y, typename F::Acc* partials, unsigned* tickets,
                       const __grid_constant__ ReduceShape shape) {
  device::GridDependencyWait();
  const bool columns = kColumnPack > 1 || (kRowPack == 1 && shape.columns);
  const unsigned lane = columns ? threadIdx.y : threadIdx.x, lanes = columns ? blockDim.y : blockDim.x;
  const int64_t unit = columns ? static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x
                               : static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  const bool active = unit < shape.kept.elems;
  const int64_t begin = blockIdx.y * shape.chunk;

  typename F::Acc acc[kColumnPack];
#pragma unroll
  for (int k = 0; k < kColumnPack; ++k) acc[k] = f.Identity();
  if (active) {
    Accumulate<kRowPack, kColumnPack>(f, x + OffsetOf(shape.kept, unit), shape.reduced, begin,
                                      device::Min(begin + shape.chunk, shape.reduced.elems), lane, lanes, acc);
  }
  CombineLanes<kColumnPack>(f, columns, acc);
  if (gridDim.y > 1) {
    if (!LastToArrive<kColumnPack>(active && lane == 0, unit, shape.kept.elems, acc, partials, tickets)) return;
#pragma unroll
    for (int k = 0; k < kColumnPack; ++k) acc[k] = f.Identity();
#pragma unroll 1
    for (unsigned split = lane; active && split < gridDim.y; split += lanes) {
#pragma unroll
      for (int k = 0; k < kColumnPack; ++k) {
        acc[k] = f.Merge(acc[k], partials[(split * shape.kept.elems + unit) * kColumnPack + k]);
      }
    }
    CombineLanes<kColumnPack>(f, columns, acc);
  }
  if (!active || lane != 0) return;
  using Result = typename F::Result;
  Pack<Result, kColumnPack> result;
#pragma unroll
  for (int k = 0; k < kColumnPack; ++k) result.value[k] = Finish<Result>(f.Value(acc[k]), shape.post, shape.count);
  StorePack<kColumnPack>(y + unit * kColumnPack, result);
}

template <template <class> class F, DataType kType, ReduceOp op>
Status LaunchReduce(const ReduceArgs& args, device::Stream stream) {
  using T = CppType<kType>;
  using Functor = F<T>;
  using Acc = typename Functor::Acc;
  static_assert(sizeof(Acc) <= kMaxAccumulatorBytes);
  const ReducePlan& plan = *args.plan;
  if (plan.outputs == 0) return Status::Ok();
  const ReduceShape shape{plan.kept,  plan.reduced, CeilDiv<int64_t>(plan.reduced.elems, plan.splits),
                          plan.count, plan.columns, PostOf(op)};
  device::LaunchConfig config;
  config.block = {plan.width, plan.height, 1};
  config.grid.x = static_cast<unsigned>(CeilDiv<int64_t>(plan.kept.elems, plan.columns ? plan.width : plan.height));
  config.grid.y = static_cast<unsigned>(plan.splits);
  config.programmatic = true;
  Acc* partials = nullptr;
  unsigned* tickets = nullptr;
  if (plan.splits > 1) {
    partials = static_cast<Acc*>(args.workspace);
    tickets = args.tickets;
  }
  const auto launch = [&](auto kernel) {
    return device::Launch(kernel, config, stream, Functor(args), static_cast<const T*>(args.x),
                          static_cast<typename Functor::Result*>(args.y), partials, tickets, shape);
  };
  constexpr int kPack = ReducePack(op, kType);
  if constexpr (kPack > 1) {
    if (plan.row_pack > 1) return launch(ReduceTensorKernel<Functor, T, kPack, 1>);
    if (plan.column_pack > 1) return launch(ReduceTensorKernel<Functor, T, 1, kPack>);
  }
  return launch(ReduceTensorKernel<Functor, T, 1, 1>);
}

// The launcher of `op`, whose accumulation is F, for one of its types.
template <template <class> class F, ReduceOp op>
ReduceKernel FindReduceIn(DataType type) {
  ReduceKernel found = nullptr;
  const auto attempt = [&]<DataType candidate>() {
    if constexpr (ReduceTypes(op).Contains(candidate)) {
      if (type == candidate) found = &LaunchReduce<F, candidate, op>;
    }
  };
  [&]<int... i>(std::integer_sequence<int, i...>) { (attempt.template operator()<static_cast<DataType>(i)>(), ...); }
  (std::make_integer_sequence<int, kDataTypeCount>());
  return found;
}

}  // namespace cudaep::kernels
