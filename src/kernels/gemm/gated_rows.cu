// Gated products by tiles of 128 rows.
#include "kernels/gemm/gated_rows.cuh"

namespace cudaep::kernels {

Status LaunchLargeGate(const GatedProduct& product, const WarpgroupPlan& plan, const GatedPointers& at,
                       device::Stream stream) {
  return LaunchGateOf<LargeGate>(product, plan, at, stream);
}

Status LaunchGatedRows(const GatedProduct& product, const WarpgroupPlan& plan, const GatedPointers& at,
                       device::Stream stream) {
  if (product.m == 0 || product.n == 0) return Status::Ok();
  if (product.type != DataType::kFloat16 && product.type != DataType::kBFloat16) {
    return NotSupported("a gated product of ", DataTypeName(product.type));
  }
  if (!EndsTiles(product.activation) || product.n % kManyRowsColumns != 0 || product.k <= 0 ||
      product.k % kManyRowsPack != 0) {
    return InvalidArgument("no gated product, [", product.m, ',', product.k, "] by [", 2 * product.n, ',', product.k,
                           "], has activation ", ActivationName(product.activation));
  }
  return IsFlat(plan.tiles) ? LaunchFlatGate(product, plan, at, stream) : LaunchLargeGate(product, plan, at, stream);
}

}  // namespace cudaep::kernels
