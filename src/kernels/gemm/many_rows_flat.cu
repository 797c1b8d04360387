// Products by tiles of 64 rows.
#include "kernels/gemm/many_rows.cuh"

namespace cudaep::kernels {
namespace {

template <class T, RowsActivation kActivation, bool kHasResidual>
using FlatRows = RowsFinish<T, kActivation, false, kHasResidual, WarpgroupTiles::kFinest, WarpgroupTiles::kFlat>;

template <class T>
Status Launch(const ManyRowsProduct& product, const WarpgroupPlan& plan, const ManyRowsPointers& at,
              device::Stream stream) {
  constexpr auto kNoneOrRelu = RowsActivation::kNoneOrRelu, kGelu = RowsActivation::kGeluErf;
  if (product.activation == Activation::kGeluErf) {
    if (product.residual) return NoSuchEnd(product, plan);
    return LaunchRows<FlatRows<T, kGelu, false>>(product, plan, at, stream);
  }
  if (!IsNoneOrRelu(product.activation)) return NoSuchEnd(product, plan);
  return product.residual ? LaunchRows<FlatRows<T, kNoneOrRelu, true>>(product, plan, at, stream)
                          : LaunchRows<FlatRows<T, kNoneOrRelu, false>>(product, plan, at, stream);
}

}  // namespace

Status LaunchFlatRows(const ManyRowsProduct& product, const WarpgroupPlan& plan, const ManyRowsPointers& at,
                      device::Stream stream) {
  return product.type == DataType::kFloat16 ? Launch<Half>(product, plan, at, stream)
                                            : Launch<BFloat16>(product, plan, at, stream);
}

}  // namespace cudaep::kernels
