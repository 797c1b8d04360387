#include "core/checked_math.h"
#include "core/data_type_traits.h"
#include "kernels/reduce/raw_pack.cuh"
#include "kernels/softmax/softmax.h"
#include "kernels/softmax/softmax_math.cuh"

namespace cudaep::kernels {
namespace {

template <class T>
struct SoftmaxInput {
  const T* x;
  const T* bias;
  int64_t rows;
  int32_t row_packs;
  BiasRows bias_rows;

  template <int kPack>
  __device__ __forceinline__ int64_t BiasOffset(int64_t row) const {
    if (bias == nullptr || bias_rows.count == 1) return 0;
    return row / bias_rows.repeat % bias_rows.count * row_packs * kPack;
  }
};

// The values of a pack of x, with the bias added in the compute type; beyond the row's end -infinity, which changes
// neither maximum nor sum.
template <int kPack, class T>
__device__ __forceinline__ void Convert(const Pack<T, kPack>& x, const T* bias, ComputeType<T>* value) {
#pragma unroll
  for (int k = 0; k < kPack; ++k) value[k] = Load(x.value[k]);
  if (bias == nullptr) return;
  const Pack<T, kPack> bias_pack = LoadPack<kPack>(bias);
#pragma unroll
  for (int k = 0; k < kPack; ++k) value[k] += Load(bias_pack.value[k]);
}
template <int kPack, class C>
__device__ __forceinline__ void FillBeyondEnd(C* value) {
#pragma unroll
  for (int k = 0; k < kPack; ++k) value[k] = NegativeInfinity<C>();
}

// One row at a time for each blockDim.x threads, kept in registers, while the next one is on its way.
template <class T, int kPack, int kPacks>
__global__ void __launch_bounds__(kMaxRowThreads)
    SoftmaxResidentKernel(SoftmaxInput<T> in, T* y, bool log, int iterations) {
  using C = ComputeType<T>;
  __shared__ C max_scratch[kMaxRowWarps];
  __shared__ C sum_scratch[kMaxRowWarps];
  device::GridDependencyWait();
  const auto pack_of = [](int j) { return static_cast<int>(threadIdx.x + j * blockDim.x); };
  int64_t row = static_cast<int64_t>(blockIdx.x) * iterations * blockDim.y + threadIdx.y;
  RawPack<T, kPack> next[kPacks] = {};
  const auto fetch = [&](int64_t from) {
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
      if (from < in.rows && pack_of(j) < in.row_packs) {
        next[j] = LoadRaw<kPack>(in.x + (from * in.row_packs + pack_of(j)) * kPack);
      }
    }
  };
  fetch(row);

#pragma unroll 1
  for (int i = 0; i < iterations; ++i, row += blockDim.y) {
    const int packs = row < in.rows ? in.row_packs : 0;
    const T* const bias = in.bias == nullptr ? nullptr : in.bias + in.template BiasOffset<kPack>(row);
    C value[kPacks][kPack];
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
      if (pack_of(j) < packs) {
        Convert<kPack>(Unpack<T, kPack>(next[j]), bias == nullptr ? nullptr : bias + pack_of(j) * kPack, value[j]);
      } else {
        FillBeyondEnd<kPack>(value[j]);
      }
    }
    if (i + 1 < iterations) fetch(row + blockDim.y);
    C max = NegativeInfinity<C>();
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
#pragma unroll
      for (int k = 0; k < kPack; ++k) max = device::Max(max, value[j][k]);
    }
    max = RowReduce(max, MaxOp(), max_scratch);

    C sum = 0;
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
#pragma unroll
      for (int k = 0; k < kPack; ++k) {
        const C exponential = SoftmaxExp(value[j][k] - max);
        sum += exponential;
        if (!log) value[j][k] = exponential;
      }
    }
    sum = RowReduce(sum, AddOp(), sum_scratch);

    const SoftmaxOutput<C> output(max, sum, log);
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
      if (pack_of(j) >= packs) continue;
      Pack<T, kPack> result;
#pragma unroll
      for (int k = 0; k < kPack; ++k) result.value[k] = Store<T>(output.Finish(value[j][k]));
      StoreRaw<kPack>(y + (row * in.row_packs + pack_of(j)) * kPack, result);
    }
  }
}

// One row for each block, read twice.
template <class T, int kPack>
__global__ void __launch_bounds__(kStreamThreads) SoftmaxStreamKernel(SoftmaxInput<T> in, T* y, bool log, int) {
  using C = ComputeType<T>;
  constexpr int kInFlight = 4;  // independent loads of a thread, to cover the latency of memory
  __shared__ C max_scratch[kMaxRowWarps];
  __shared__ C sum_scratch[kMaxRowWarps];
  device::GridDependencyWait();
  const int64_t row = blockIdx.x;
  const int64_t row_offset = row * in.row_packs * kPack;
  const T* const x = in.x + row_offset;
  const T* const bias = in.bias == nullptr ? nullptr : in.bias + in.template BiasOffset<kPack>(row);
  const int step = static_cast<int>(blockDim.x);
  C value[kInFlight][kPack];
  const auto load = [&](int64_t first) {
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) {
      const int64_t pack = first + j * step;
      if (pack < in.row_packs) {
        Convert<kPack>(LoadPack<kPack>(x + pack * kPack), bias == nullptr ? nullptr : bias + pack * kPack, value[j]);
      } else {
        FillBeyondEnd<kPack>(value[j]);
      }
    }
  };

  OnlineSum<C> online;
  for (int64_t first = threadIdx.x; first < in.row_packs; first += kInFlight * step) {
    load(first);
    C max = value[0][0];
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) {
#pragma unroll
      for (int k = 0; k < kPack; ++k) max = device::Max(max, value[j][k]);
    }
    const C base = online.RaiseMax(max);
    C sum = 0;
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) {
#pragma unroll
      for (int k = 0; k < kPack; ++k) sum += SoftmaxExp(value[j][k] - base);
    }
    online.sum += sum;
  }
  const C max = RowReduce(online.max, MaxOp(), max_scratch);
  online.RaiseMax(max);
  const SoftmaxOutput<C> output(max, RowReduce(online.sum, AddOp(), sum_scratch), log);

  for (int64_t first = threadIdx.x; first < in.row_packs; first += kInFlight * step) {
    load(first);
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) {
      const int64_t pack = first + j * step;
      if (pack >= in.row_packs) continue;
      Pack<T, kPack> result;
#pragma unroll
      for (int k = 0; k < kPack; ++k) result.value[k] = Store<T>(output(value[j][k]));
      StorePack<kPack>(y + row_offset + pack * kPack, result);
    }
  }
}

template <class T>
Status Launch(const SoftmaxArgs& args, device::Stream stream) {
  constexpr int kPack = RowPack(sizeof(T));
  RowPlan plan = args.plan;
  const bool aligned = IsAligned(args.x, kPackBytes) && IsAligned(args.y, kPackBytes) &&
                       (args.bias == nullptr || IsAligned(args.bias, kPackBytes));
  if (plan.pack != 1 && !aligned) plan = PlanRows(args.rows, args.elems, sizeof(T), false);

  const SoftmaxInput<T> in{static_cast<const T*>(args.x), static_cast<const T*>(args.bias), args.rows,
                           static_cast<int32_t>(args.elems / plan.pack), args.bias_rows};
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(CeilDiv<int64_t>(args.rows, plan.rows_per_block * plan.iterations));
  config.block = {plan.width, plan.rows_per_block, 1};
  config.programmatic = true;
  const auto launch = [&](auto kernel) {
    return device::Launch(kernel, config, stream, in, static_cast<T*>(args.y), args.log, plan.iterations);
  };
  if (plan.pack == 1) {
    return plan.resident ? launch(SoftmaxResidentKernel<T, 1, kScalarPacks>) : launch(SoftmaxStreamKernel<T, 1>);
  }
  if (!plan.resident) return launch(SoftmaxStreamKernel<T, kPack>);
  return plan.packs_per_thread == 1 ? launch(SoftmaxResidentKernel<T, kPack, 1>)
                                    : launch(SoftmaxResidentKernel<T, kPack, ResidentPacks(sizeof(T))>);
}

}  // namespace

RowPlan PlanSoftmax(DataType type, int64_t rows, int64_t elems) { return PlanRows(rows, elems, SizeOf(type), true); }

Status LaunchSoftmaxRows(const SoftmaxArgs& args, device::Stream stream) {
  if (args.rows == 0 || args.elems == 0) return Status::Ok();
  if (!FitsInt32(args.elems)) return NotSupported("softmax over ", args.elems, " elements, more than 2^31 - 1");
  return VisitType<kSoftmaxTypes>(args.type, NotSupported("softmax of ", DataTypeName(args.type)),
                                  [&]<class T>() { return Launch<T>(args, stream); });
}

}  // namespace cudaep::kernels
