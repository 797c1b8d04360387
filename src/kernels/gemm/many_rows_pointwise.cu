// Products of so many rows and so few inner elements that memory bandwidth bounds them: pointwise convolutions.
#include "kernels/gemm/many_rows.cuh"

namespace cudaep::kernels {
namespace {

template <class T, bool kHasResidual>
using PointwiseRows = RowsFinish<T, RowsActivation::kNoneOrRelu, true, kHasResidual, WarpgroupTiles::kSmall>;

template <class T>
Status Launch(const ManyRowsProduct& product, const WarpgroupPlan& plan, const ManyRowsPointers& at,
              device::Stream stream) {
  return product.residual ? LaunchRows<PointwiseRows<T, true>>(product, plan, at, stream)
                          : LaunchRows<PointwiseRows<T, false>>(product, plan, at, stream);
}

}  // namespace

Status LaunchPointwise(const ManyRowsProduct& product, const WarpgroupPlan& plan, const ManyRowsPointers& at,
                       device::Stream stream) {
  if (!IsNoneOrRelu(product.activation)) return NoSuchEnd(product, plan);
  return product.type == DataType::kFloat16 ? Launch<Half>(product, plan, at, stream)
                                            : Launch<BFloat16>(product, plan, at, stream);
}

}  // namespace cudaep::kernels
