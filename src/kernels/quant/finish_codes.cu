// Sums that a library left as codes, as code_product.h says: where no kernel multiplies and finishes.
#include <algorithm>

#include "core/checked_math.h"
#include "kernels/pack.h"
#include "kernels/quant/code_finish.cuh"

namespace cudaep::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostRows = 1024;  // of the grid

// Columns along the grid's x, a row for each block along y at a time.
template <bool kFirst>
__global__ void __launch_bounds__(kThreads)
    FinishCodesKernel(__grid_constant__ const CodeFinish p, const int32_t* sums) {
  __shared__ uint8_t table[kCodeTable];
  device::GridDependencyWait();
  if (p.table != nullptr) BringCodeTable(table, p.table, static_cast<int>(threadIdx.x), kThreads);
  __syncthreads();
  const int n = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  if (n >= p.n) return;
  const int part_index = n / p.part_n;
  const CodePart part = p.part[part_index];
  if (p.c[part_index] == nullptr) return;
  auto* const c = static_cast<uint8_t*>(p.c[part_index]) + n - part_index * p.part_n;
  const CodeColumn column = CodeColumnOf<kFirst>(p, part, n);
  const auto of = CodeRanges::Of(part);
  for (int64_t row = blockIdx.y; row < p.m; row += gridDim.y) {
    const int32_t index = IndexOf<kFirst>(of, sums[row * p.n + n], column);
    c[row * p.part_n] = p.table != nullptr ? table[index] : static_cast<uint8_t>(of.bytes.Join(index, 0));
  }
}

}  // namespace

Status LaunchFinishCodes(const CodeFinish& finish, const int32_t* sums, device::Stream stream) {
  if (finish.m == 0 || finish.n == 0) return Status::Ok();
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(CeilDiv<int64_t>(finish.n, kThreads));
  config.grid.y = static_cast<unsigned>(std::min(int64_t{finish.m}, kMostRows));
  config.block.x = kThreads;
  config.programmatic = true;
  return device::Launch(finish.has_first != 0 ? FinishCodesKernel<true> : FinishCodesKernel<false>, config, stream,
                        finish, sums);
}

}  // namespace cudaep::kernels
