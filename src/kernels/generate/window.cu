#include <algorithm>
#include <numbers>

#include "core/checked_math.h"
#include "core/data_type_traits.h"
#include "device/launch.h"
#include "kernels/generate/window.h"

namespace cudaep::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostBlocks = 1 << 20;

template <class T>
__global__ void __launch_bounds__(kThreads) WindowKernel(__grid_constant__ const CosineWindow window, T* out) {
  device::GridDependencyWait();
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < window.size; i += step) {
    const double angle = 2.0 * std::numbers::pi * static_cast<double>(i) / window.period;
    const double value = window.constant - window.first * cos(angle) + window.second * cos(2.0 * angle);
    if constexpr (std::is_integral_v<T>) {
      out[i] = value == value ? static_cast<T>(static_cast<int64_t>(value)) : T(0);
    } else {
      out[i] = Store<T>(static_cast<ComputeType<T>>(value));
    }
  }
}

}  // namespace

Status LaunchWindow(const CosineWindow& window, DataType type, void* out, device::Stream stream) {
  if (window.size == 0) return Status::Ok();
  const int64_t blocks = std::min(CeilDiv<int64_t>(window.size, kThreads), kMostBlocks);
  const device::LaunchConfig config{.grid = {static_cast<unsigned>(blocks)}, .block = {kThreads}, .programmatic = true};
  return VisitType<kNumericTypes>(type, NotSupported("element type ", DataTypeName(type)), [&]<class T>() {
    return device::Launch(WindowKernel<T>, config, stream, window, static_cast<T*>(out));
  });
}

}  // namespace cudaep::kernels
