#include "kernels/sample/grid_sample.h"
#include "kernels/sample/sample_place.cuh"

namespace cudaep::kernels {
namespace {

template <class T>
__global__ void __launch_bounds__(kSampleThreads)
    AffineGridKernel(__grid_constant__ const AffineGrid p, const T* theta, T* grid, int64_t points) {
  using C = ComputeType<T>;
  device::GridDependencyWait();
  const int64_t at = static_cast<int64_t>(blockIdx.x) * kSampleThreads + threadIdx.x;
  if (at >= p.batch * points) return;
  const int64_t image = at / points;
  int64_t rest = at - image * points;
  C place[3];  // innermost first
  for (int d = 2; d >= 0; --d) {
    const int64_t outer = rest / p.size[d], i = rest - outer * p.size[d];
    rest = outer;
    if (p.align_corners) {
      place[2 - d] = p.size[d] == 1 ? C(-1) : C(-1) + C(2) * static_cast<C>(i) / static_cast<C>(p.size[d] - 1);
    } else {
      place[2 - d] = static_cast<C>(2 * i + 1) / static_cast<C>(p.size[d]) - C(1);
    }
  }
  const T* const rows = theta + image * p.rank * (p.rank + 1);
  for (int row = 0; row < p.rank; ++row) {
    const T* const factors = rows + row * (p.rank + 1);
    C sum = Load(factors[p.rank]);
    for (int i = 0; i < p.rank; ++i) sum += Load(factors[i]) * place[i];
    grid[at * p.rank + row] = Store<T>(sum);
  }
}

}  // namespace

Status LaunchAffineGrid(const AffineGrid& problem, DataType type, const void* theta, void* grid,
                        device::Stream stream) {
  const int64_t points = problem.size[0] * problem.size[1] * problem.size[2];
  if (problem.batch * points == 0) return Status::Ok();
  const device::LaunchConfig config = SampleConfig(problem.batch * points, 1);
  return VisitType<kSampleTypes>(type, NotSupported("element type ", DataTypeName(type)), [&]<class T>() {
    return device::Launch(AffineGridKernel<T>, config, stream, problem, static_cast<const T*>(theta),
                          static_cast<T*>(grid), points);
  });
}

}  // namespace cudaep::kernels
