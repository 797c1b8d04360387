// Sums that a library left as codes, as code_product.h says: where no kernel multiplies and finishes.
#include <algorithm>

#include "core/checked_math.h"
#include "kernels/pack.h"
#include "kernels/quant/code_finish.cuh"

namespace cudaep::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostRows = 1024;  // of the grid

// A row for each block of the grid's x at a time, columns along y.
template <bool kFirst>
__global__ void __launch_bounds__(kThreads)
    FinishCodesKernel(__grid_constant__ const CodeFinish p, const int32_t* sums, uint8_t* c, int64_t m) {
  __shared__ uint8_t table[256];
  device::GridDependencyWait();
  if (p.table != nullptr) table[threadIdx.x] = p.table[threadIdx.x];
  __syncthreads();
  const int64_t n = int64_t{blockIdx.y} * kThreads + threadIdx.x;
  if (n >= p.n) return;
  const CodeColumn column = CodeColumnOf<kFirst>(p, CodeNumbersOf(p, n));
  for (int64_t row = blockIdx.x; row < m; row += gridDim.x) {
    const int32_t sum = sums[row * p.n + n];
    c[row * p.n + n] = static_cast<uint8_t>(p.table != nullptr ? CodeOf<kFirst, true>(p, sum, column, table)
                                                               : CodeOf<kFirst, false>(p, sum, column, table));
  }
}

}  // namespace

Status LaunchFinishCodes(const CodeFinish& finish, const int32_t* sums, void* c, int64_t m, device::Stream stream) {
  if (m == 0 || finish.n == 0) return Status::Ok();
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(std::min(m, kMostRows));
  config.grid.y = static_cast<unsigned>(CeilDiv<int64_t>(finish.n, kThreads));
  config.block.x = kThreads;
  config.programmatic = true;
  return device::Launch(finish.has_first != 0 ? FinishCodesKernel<true> : FinishCodesKernel<false>, config, stream,
                        finish, sums, static_cast<uint8_t*>(c), m);
}

}  // namespace cudaep::kernels
