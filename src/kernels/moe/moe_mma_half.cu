#include "kernels/moe/moe_mma.cuh"

namespace cudaep::kernels::moe {

Status LaunchPackedHalf(const MoeArguments& p, int tile_rows, int64_t tiles, device::Stream stream) {
  return LaunchPacked<Half>(p, tile_rows, tiles, stream);
}

}  // namespace cudaep::kernels::moe
