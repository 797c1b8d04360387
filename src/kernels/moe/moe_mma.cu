#include "kernels/moe/moe_mma.cuh"

namespace cudaep::kernels {
namespace moe {

Status LaunchDense(const MoeArguments& p, DataType type, int tile_rows, int64_t tiles, device::Stream stream) {
  return type == DataType::kFloat16 ? LaunchBits<Half, 0>(p, tile_rows, tiles, stream)
                                    : LaunchBits<BFloat16, 0>(p, tile_rows, tiles, stream);
}

}  // namespace moe

Status LaunchMoeTensorProduct(const MoeArguments& p, DataType type, int tile_rows, int64_t tiles,
                              device::Stream stream) {
  if (p.bits == 0) return moe::LaunchDense(p, type, tile_rows, tiles, stream);
  return type == DataType::kFloat16 ? moe::LaunchPackedHalf(p, tile_rows, tiles, stream)
                                    : moe::LaunchPackedBFloat16(p, tile_rows, tiles, stream);
}

}  // namespace cudaep::kernels
