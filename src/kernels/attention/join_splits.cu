// Joins what blocks found for parts of the keys: for every row its values, not yet divided, its maximum and its sum.
#include "core/checked_math.h"
#include "core/data_type_traits.h"
#include "kernels/attention/flash.h"
#include "kernels/softmax/softmax_math.cuh"

namespace cudaep::kernels {
namespace {

constexpr unsigned kThreads = 128;

struct Arguments {
  const void* parts;
  void* y;
  AttentionStrides y_strides;
  int64_t heads, queries, columns, rows;  // rows: of all matrices
  int splits;
};

// One block a row at a time.
template <class T, class Sum>
__global__ void __launch_bounds__(kThreads) JoinSplitsKernel(__grid_constant__ const Arguments p) {
  constexpr Sum kHidden = -std::numeric_limits<Sum>::infinity();
  device::GridDependencyWait();
  const auto* const values = static_cast<const Sum*>(p.parts);
  const Sum* const bases = values + p.splits * p.rows * p.columns;
  for (int64_t row = blockIdx.x; row < p.rows; row += gridDim.x) {
    Sum max = kHidden;
    for (int i = 0; i < p.splits; ++i) max = SoftmaxMax(max, bases[2 * (i * p.rows + row)]);
    const Sum base = max == kHidden ? Sum(0) : max;
    Sum sum = 0;
    for (int i = 0; i < p.splits; ++i) {
      const Sum* const part = bases + 2 * (i * p.rows + row);
      sum += part[1] * PreciseExp(part[0], base);
    }
    const int64_t matrix = row / p.queries, query = row % p.queries;
    T* const y = static_cast<T*>(p.y) + matrix / p.heads * p.y_strides.batch + matrix % p.heads * p.y_strides.head +
                 query * p.y_strides.row;
    for (int64_t column = threadIdx.x; column < p.columns; column += kThreads) {
      Sum value = 0;
      for (int i = 0; i < p.splits; ++i) {
        value += values[(i * p.rows + row) * p.columns + column] * PreciseExp(bases[2 * (i * p.rows + row)], base);
      }
      y[column] = Store<T>(static_cast<ComputeType<T>>(sum == Sum(0) ? Sum(0) : value / sum));
    }
  }
}

using Kernel = void (*)(Arguments);

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
                            .splits = plan.splits};
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
