#include "core/checked_math.h"
#include "core/data_type_traits.h"
#include "kernels/common/trigger.cuh"
#include "kernels/softmax/softmax_long.cuh"

namespace cudaep::kernels {
namespace {

// One row at a time for each blockDim.x threads, kept in registers, while the next one is on its way if there may be
// one (16-bit types, see PlanRows). Each warp subtracts its own maximum; what is missing is in the last factor.
template <class T, int kPack, int kPacks>
__global__ void __launch_bounds__(kMaxRowThreads)
    SoftmaxResidentKernel(SoftmaxInput<T> in, T* y, bool log, int iterations) {
  using C = ComputeType<T>;
  __shared__ C max_scratch[2][kMaxRowWarps];
  __shared__ C sum_scratch[2][kMaxRowWarps];
  TriggerDependentsOfSmallGrid();
  const auto pack_of = [](int j) { return static_cast<int>(threadIdx.x + j * blockDim.x); };
  int64_t row = static_cast<int64_t>(blockIdx.x) * iterations * blockDim.y + threadIdx.y;
  device::GridDependencyWait();
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
        UnpackCompute<T, kPack>(next[j], value[j]);
        if (bias != nullptr) AddPack<kPack>(bias + pack_of(j) * kPack, value[j]);
      } else {
        FillBeyondEnd<kPack>(value[j]);
      }
    }
    if (i + 1 < iterations) fetch(row + blockDim.y);
    const C warp_max = WarpRowMax(MaxOf<kPacks>(value));
    // While all values are -infinity nothing may be subtracted: infinity minus infinity is NaN.
    const C base = warp_max == NegativeInfinity<C>() ? C(0) : warp_max;
    const ExpBelow<T> exp_below{base};
    C sums[kPacks] = {};  // short chains; of 16-bit elements, whose exponentials take less time, one
    constexpr bool kChains = sizeof(T) > 2;
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
#pragma unroll
      for (int k = 0; k < kPack; ++k) {
        const C exponential = exp_below(value[j][k]);
        sums[kChains ? j : 0] += exponential;
        if (!log) value[j][k] = exponential;
      }
    }
    C sum = sums[0];
    if constexpr (kChains) {
#pragma unroll
      for (int j = 1; j < kPacks; ++j) sum += sums[j];
    }
    C max = warp_max;
    sum = WarpRowSum(sum);
    CombineWarps(max, sum, max_scratch[i % 2], sum_scratch[i % 2]);

    const C factor = PreciseExp(warp_max, max) / sum, log_sum = std::log(sum);
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
      if (pack_of(j) >= packs) continue;
#pragma unroll
      for (int k = 0; k < kPack; ++k) value[j][k] = log ? value[j][k] - max - log_sum : value[j][k] * factor;
      StoreWords<kPack>(y + (row * in.row_packs + pack_of(j)) * kPack, PackCompute<T, kPack>(value[j]));
    }
  }
}

template <class T, bool kBias, class Launch>
Status LaunchLong(const SoftmaxRowPlan& plan, Launch launch) {
  constexpr int kPack = RowPack(sizeof(T));
  if constexpr (kPack > 1) {
    if (plan.pack != 1) {
      return plan.long_threads == kLongThreads ? launch(SoftmaxLongKernel<T, kPack, kLongThreads, kBias>)
                                               : launch(SoftmaxLongKernel<T, kPack, kLongThreads / 2, kBias>);
    }
  }
  return launch(SoftmaxUnpackedKernel<T, kBias>);
}

template <class T>
Status Launch(const SoftmaxArgs& args, device::Stream stream) {
  constexpr int kPack = RowPack(sizeof(T));
  SoftmaxRowPlan plan = args.plan;
  const bool aligned = IsAligned(args.x, kPackBytes) && IsAligned(args.y, kPackBytes) &&
                       (args.bias == nullptr || IsAligned(args.bias, kPackBytes));
  if (plan.pack != 1 && !aligned) plan = {PlanRows(args.rows, args.elems, sizeof(T), false)};

  const SoftmaxInput<T> in{static_cast<const T*>(args.x), static_cast<const T*>(args.bias), args.rows,
                           static_cast<int32_t>(args.elems / plan.pack), args.bias_rows};
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(CeilDiv<int64_t>(args.rows, plan.rows_per_block * plan.iterations));
  config.block = {plan.width, plan.rows_per_block, 1};
  config.programmatic = true;
  if (!plan.resident) {
    if (plan.blocks != 0) config.grid.x = static_cast<unsigned>(plan.blocks);
    config.block.x = plan.long_threads;
    config.shared_bytes = static_cast<size_t>(plan.slots) * LongSlotBytes(plan.long_threads);
  }
  const auto launch = [&](auto kernel) {
    return device::Launch(kernel, config, stream, in, static_cast<T*>(args.y), args.log,
                          plan.resident ? plan.iterations : plan.slots);
  };
  if (!plan.resident)
    return args.bias == nullptr ? LaunchLong<T, false>(plan, launch) : LaunchLong<T, true>(plan, launch);
  if (plan.pack == 1) return launch(SoftmaxResidentKernel<T, 1, kScalarPacks>);
  if (plan.packs_per_thread == 1) return launch(SoftmaxResidentKernel<T, kPack, 1>);
  return launch(SoftmaxResidentKernel<T, kPack, ResidentPacks(sizeof(T))>);
}

}  // namespace

Status LaunchSoftmaxRows(const SoftmaxArgs& args, device::Stream stream) {
  if (args.rows == 0 || args.elems == 0) return Status::Ok();
  if (args.elems > kMostRowElems) {
    return NotSupported("softmax over ", args.elems, " elements, more than ", kMostRowElems);
  }
  return VisitType<kSoftmaxTypes>(args.type, NotSupported("softmax of ", DataTypeName(args.type)),
                                  [&]<class T>() { return Launch<T>(args, stream); });
}

}  // namespace cudaep::kernels
