#include "core/checked_math.h"
#include "device/launch.h"
#include "kernels/movement/fill.h"
#include "kernels/pool/unpool.h"

namespace cudaep::kernels {
namespace {

constexpr int kThreads = 256;

template <class Word>
__global__ void __launch_bounds__(kThreads)
    UnpoolKernel(const Word* x, const int64_t* positions, Word* y, const __grid_constant__ UnpoolShape shape) {
  device::GridDependencyWait();
  const int64_t element = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (element >= shape.elems) return;
  int64_t rest = positions[element], to = 0, stride = 1;
  if (rest < 0) return;
#pragma unroll
  for (int d = kMaxUnpoolRank - 1; d >= 0; --d) {
    const int64_t outer = rest / shape.counted[d];
    to += (rest - outer * shape.counted[d]) * stride;
    stride *= shape.out[d];
    rest = outer;
  }
  if (rest == 0) y[to] = x[element];
}

template <class Word>
Status Launch(const UnpoolShape& shape, const void* x, const int64_t* positions, void* y, device::Stream stream) {
  int64_t outputs = 1;
  for (const int64_t dim : shape.out) outputs *= dim;
  const Word zero = 0;
  if (outputs == 0) return Status::Ok();
  CUDAEP_RETURN_IF_ERROR(LaunchFill(&zero, sizeof(zero), outputs, y, stream));
  if (shape.elems == 0) return Status::Ok();
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(CeilDiv<int64_t>(shape.elems, kThreads));
  config.block.x = kThreads;
  config.programmatic = true;
  return device::Launch(UnpoolKernel<Word>, config, stream, static_cast<const Word*>(x), positions,
                        static_cast<Word*>(y), shape);
}

}  // namespace

Status LaunchUnpool(const UnpoolShape& shape, size_t elem_bytes, const void* x, const int64_t* positions, void* y,
                    device::Stream stream) {
  switch (elem_bytes) {
    case 2:
      return Launch<uint16_t>(shape, x, positions, y, stream);
    case 4:
      return Launch<uint32_t>(shape, x, positions, y, stream);
    default:
      return Launch<uint64_t>(shape, x, positions, y, stream);
  }
}

}  // namespace cudaep::kernels
