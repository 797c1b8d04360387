#include <algorithm>
#include <cstring>

#include "device/launch.h"
#include "kernels/generate/literal.h"

namespace cudaep::kernels {
namespace {

constexpr size_t kMostBytes = 512;  // of a launch

struct Literal {
  std::byte value[kMostBytes];
};

__global__ void __launch_bounds__(kMostBytes) LiteralKernel(__grid_constant__ const Literal literal, std::byte* out) {
  device::GridDependencyWait();
  out[threadIdx.x] = literal.value[threadIdx.x];
}

}  // namespace

Status LaunchLiteral(const void* values, size_t bytes, void* out, device::Stream stream) {
  const auto* next = static_cast<const std::byte*>(values);
  for (auto* to = static_cast<std::byte*>(out); bytes != 0;) {
    const size_t part = std::min(bytes, kMostBytes);
    Literal literal{};
    std::memcpy(literal.value, next, part);
    device::LaunchConfig config;
    config.block.x = static_cast<unsigned>(part);
    config.programmatic = true;
    CUDAEP_RETURN_IF_ERROR(device::Launch(LiteralKernel, config, stream, literal, to));
    next += part, to += part, bytes -= part;
  }
  return Status::Ok();
}

}  // namespace cudaep::kernels
