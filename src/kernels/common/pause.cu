#include "device/launch.h"
#include "kernels/common/pause.h"

namespace cudaep::kernels {
namespace {

__global__ void PauseKernel() { device::GridDependencyWait(); }

}  // namespace

Status LaunchPause(device::Stream stream) {
  device::LaunchConfig config;
  config.grid.x = 1;
  config.block.x = 32;
  config.programmatic = true;
  return device::Launch(PauseKernel, config, stream);
}

}  // namespace cudaep::kernels
