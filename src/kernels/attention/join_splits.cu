// Joins what blocks found for parts of the keys: for every row its values, not yet divided, its maximum and its sum.
#include "core/checked_math.h"
#include "core/data_type_traits.h"
#include "kernels/attention/flash.h"
#include "kernels/common/trigger.cuh"
#include "kernels/softmax/softmax_math.cuh"

namespace cudaep::kernels {
namespace {

constexpr unsigned kThreads = 128, kThreadsAtOnce = 1024;  // of a multiprocessor

struct Arguments {
  const void* parts;
  void* y;
  AttentionStrides y_strides;
  int64_t heads, queries, columns, rows;  // rows: of all matrices
  int splits;
  bool empty_is_nan;
};

// One block a row at a time. Its first warp finds what each part weighs, a lane for every 32nd part; then each thread
// has a column, and all parts' loads are under way together.
template <class T, class Sum>
__global__ void __launch_bounds__(kThreads) JoinSplitsKernel(__grid_constant__ const Arguments p) {
  constexpr Sum kHidden = -std::numeric_limits<Sum>::infinity();
  constexpr int kParts = kMostSplits / 32;  // of a lane
  __shared__ Sum weights[kMostSplits], total;
  TriggerDependentsOfOneRound(kThreadsAtOnce);
  device::GridDependencyWait();
  const auto* const values = static_cast<const Sum*>(p.parts);
  const Sum* const bases = values + p.splits * p.rows * p.columns;
  for (int64_t row = blockIdx.x; row < p.rows; row += gridDim.x) {
    if (threadIdx.x < 32) {
      const int lane = static_cast<int>(threadIdx.x);
      Sum base[kParts], part[kParts], max = kHidden, sum = 0;
#pragma unroll
      for (int i = 0; i < kParts; ++i) {
        const int split = lane + 32 * i;
        const bool there = split < p.splits;
        base[i] = there ? bases[2 * (split * p.rows + row)] : kHidden;
        part[i] = there ? bases[2 * (split * p.rows + row) + 1] : Sum(0);
        max = SoftmaxMax(max, base[i]);
      }
#pragma unroll
      for (int other = 16; other > 0; other /= 2) max = SoftmaxMax(max, __shfl_xor_sync(device::kFullWarp, max, other));
      if (max == kHidden) max = 0;
#pragma unroll
      for (int i = 0; i < kParts; ++i) {
        const Sum weight = PreciseExp(base[i], max);
        weights[lane + 32 * i] = weight;
        sum += part[i] * weight;
      }
#pragma unroll
      for (int other = 16; other > 0; other /= 2) sum += __shfl_xor_sync(device::kFullWarp, sum, other);
      if (lane == 0) total = sum;
    }
    __syncthreads();
    // All below 2^31, as the planner has seen to.
    const uint32_t matrix = static_cast<uint32_t>(row) / static_cast<uint32_t>(p.queries);
    const uint32_t batch = matrix / static_cast<uint32_t>(p.heads);
    const int64_t query = row - matrix * p.queries, head = matrix - batch * p.heads;
    T* const y = static_cast<T*>(p.y) + batch * p.y_strides.batch + head * p.y_strides.head + query * p.y_strides.row;
    for (int64_t column = threadIdx.x; column < p.columns; column += kThreads) {
      const Sum* from = values + row * p.columns + column;
      Sum value = 0;
#pragma unroll 8
      for (int i = 0; i < p.splits; ++i, from += p.rows * p.columns) value += *from * weights[i];
      y[column] = Store<T>(static_cast<ComputeType<T>>(total == Sum(0) && !p.empty_is_nan ? Sum(0) : value / total));
    }
    __syncthreads();
  }
}

}  // namespace

Status LaunchJoinSplits(const AttentionPlan& plan, const AttentionPointers& at, device::Stream stream) {
  const AttentionProblem& p = plan.problem;
  const Arguments arguments{.parts = at.scratch,
                            .y = at.y,
                            .y_strides = p.y,
                            .heads = p.heads,
                            .queries = p.queries,
                            .columns = p.v_head_size,
                            .rows = p.batch * p.heads * p.queries,
                            .splits = plan.splits,
                            .empty_is_nan = p.empty_is_nan};
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(std::min<int64_t>(arguments.rows, 1 << 20));
  config.block.x = kThreads;
  config.programmatic = true;
  const auto launch = [&]<class T, class Sum>() {
    return device::Launch(JoinSplitsKernel<T, Sum>, config, stream, arguments);
  };
  if (p.type == DataType::kDouble) return launch.template operator()<double, double>();
  const bool wide = p.compute == DataType::kDouble;
  return VisitType<kFloatTypesNoDouble>(p.type, NotSupported("attention of ", DataTypeName(p.type)), [&]<class T>() {
    return wide ? launch.template operator()<T, double>() : launch.template operator()<T, float>();
  });
}

}  // namespace cudaep::kernels
