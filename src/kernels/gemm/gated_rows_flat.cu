// Gated products by tiles of 64 rows.
#include "kernels/gemm/gated_rows.cuh"

namespace cudaep::kernels {

Status LaunchFlatGate(const GatedProduct& product, const WarpgroupPlan& plan, const GatedPointers& at,
                      device::Stream stream) {
  return LaunchGateOf<FlatGate>(product, plan, at, stream);
}

}  // namespace cudaep::kernels
