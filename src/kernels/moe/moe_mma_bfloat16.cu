#include "kernels/moe/moe_mma.cuh"

namespace cudaep::kernels::moe {

Status LaunchPackedBFloat16(const MoeArguments& p, int tile_rows, int64_t tiles, device::Stream stream) {
  return LaunchPacked<BFloat16>(p, tile_rows, tiles, stream);
}

}  // namespace cudaep::kernels::moe
