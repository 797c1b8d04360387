#include <limits>

#include "core/checked_math.h"
#include "core/data_type_traits.h"
#include "device/launch.h"
#include "kernels/attention/empty_rows.h"

namespace cudaep::kernels {
namespace {

constexpr int kWarps = 4;  // of a block

// Whole words (head_rows.h).
struct Arguments {
  const void* bias;
  void* y;
  ScoreStrides bias_strides;
  AttentionStrides y_strides;
  int64_t rows, heads, queries;      // of the bias; heads and queries of one that repeats are 1
  int64_t same_heads, same_queries;  // that read a row
  int64_t keys, columns, causal;
  double fill;
};

// A warp a row of the bias.
template <class T>
__global__ void __launch_bounds__(kWarps * 32) EmptyRowsKernel(__grid_constant__ const Arguments p) {
  constexpr float kHidden = -std::numeric_limits<float>::infinity();
  const int64_t row = int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  const int64_t lane = threadIdx.x % 32;
  device::GridDependencyWait();
  if (row >= p.rows) return;
  const int64_t query = row % p.queries, head = row / p.queries % p.heads, batch = row / p.queries / p.heads;
  const T* const bias = static_cast<const T*>(p.bias) + batch * p.bias_strides.batch + head * p.bias_strides.head +
                        query * p.bias_strides.query;
  const int64_t keys = p.causal != 0 ? device::Min(p.keys, query + 1) : p.keys;
  for (int64_t first = 0; first < keys; first += 32) {
    const int64_t key = first + lane;
    const bool seen = key < keys && ToFloat(bias[key * p.bias_strides.key]) != kHidden;
    if (__any_sync(device::kFullWarp, seen)) return;
  }
  const T fill = Store<T>(static_cast<float>(p.fill));
  for (int64_t same = 0; same < p.same_heads * p.same_queries; ++same) {
    T* const y = static_cast<T*>(p.y) + batch * p.y_strides.batch + (head + same / p.same_queries) * p.y_strides.head +
                 (query + same % p.same_queries) * p.y_strides.row;
    for (int64_t column = lane; column < p.columns; column += 32) y[column] = fill;
  }
}

}  // namespace

Status LaunchEmptyRows(const AttentionProblem& problem, const AttentionPointers& at, device::Stream stream) {
  const ScoreStrides& bias = problem.bias_strides;
  const bool causal = problem.right == 0;
  const bool by_head = bias.head != 0, by_query = bias.query != 0 || causal;
  Arguments arguments{.bias = at.bias,
                      .y = at.y,
                      .bias_strides = bias,
                      .y_strides = problem.y,
                      .rows = 0,
                      .heads = by_head ? problem.heads : 1,
                      .queries = by_query ? problem.queries : 1,
                      .same_heads = by_head ? 1 : problem.heads,
                      .same_queries = by_query ? 1 : problem.queries,
                      .keys = problem.keys,
                      .columns = problem.v_head_size,
                      .causal = causal ? 1 : 0,
                      .fill = problem.empty_is_nan ? std::numeric_limits<double>::quiet_NaN() : 0.0};
  arguments.rows = problem.batch * arguments.heads * arguments.queries;
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(CeilDiv(arguments.rows, int64_t{kWarps}));
  config.block.x = kWarps * 32;
  config.programmatic = true;
  if (arguments.rows == 0) return Status::Ok();
  return VisitType<kFloat16Types>(
      problem.type, NotSupported("empty rows of ", DataTypeName(problem.type)),
      [&]<class T>() { return device::Launch(EmptyRowsKernel<T>, config, stream, arguments); });
}

}  // namespace cudaep::kernels
