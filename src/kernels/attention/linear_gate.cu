#include <algorithm>

#include "core/checked_math.h"
#include "core/data_type_traits.h"
#include "kernels/attention/linear_gate.h"
#include "kernels/attention/linear_tokens.cuh"

namespace cudaep::kernels {
namespace {

constexpr unsigned kThreads = 256;

template <class T>
__global__ void __launch_bounds__(kThreads)
    LinearGateKernel(const T* a, const float* bias, const float* scale, const T* b, T* decay, T* beta, int64_t elems,
                     int64_t heads) {
  device::GridDependencyWait();
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < elems; i += int64_t{gridDim.x} * kThreads) {
    const int64_t head = i % heads;
    if (decay != nullptr) decay[i] = Store<T>(scale[head] * Softplus(Load(a[i]) + bias[head]));
    if (beta != nullptr) beta[i] = Store<T>(Sigmoid(Load(b[i])));
  }
}

}  // namespace

Status LaunchLinearGates(const LinearGates& g, device::Stream stream) {
  if (g.elems == 0) return Status::Ok();
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(std::min<int64_t>(CeilDiv<int64_t>(g.elems, kThreads), 1 << 16));
  config.block.x = kThreads;
  config.programmatic = true;
  return VisitType<kFloatTypesNoDouble>(g.type, NotSupported("gates of ", DataTypeName(g.type)), [&]<class T>() {
    return device::Launch(LinearGateKernel<T>, config, stream, static_cast<const T*>(g.a), g.bias, g.scale,
                          static_cast<const T*>(g.b), static_cast<T*>(g.decay), static_cast<T*>(g.beta), g.elems,
                          g.heads);
  });
}

}  // namespace cudaep::kernels
