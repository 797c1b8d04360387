// Products of so many rows and so few inner elements that memory bandwidth bounds them: pointwise convolutions.
#include "kernels/gemm/many_rows.cuh"

namespace cudaep::kernels {
namespace {

template <class T, Activation kActivation>
Status LaunchOf(const ManyRowsProduct& product, const WarpgroupPlan& plan, const ManyRowsPointers& at,
                device::Stream stream) {
  constexpr WarpgroupTiles kTiles = WarpgroupTiles::kSmall;
  return product.residual ? LaunchRows<RowsFinish<T, kActivation, true, true, kTiles>>(product, plan, at, stream)
                          : LaunchRows<RowsFinish<T, kActivation, true, false, kTiles>>(product, plan, at, stream);
}

template <class T>
Status Launch(const ManyRowsProduct& product, const WarpgroupPlan& plan, const ManyRowsPointers& at,
              device::Stream stream) {
  switch (product.activation) {
    case Activation::kNone:
      return LaunchOf<T, Activation::kNone>(product, plan, at, stream);
    case Activation::kRelu:
      return LaunchOf<T, Activation::kRelu>(product, plan, at, stream);
    default:
      return NoSuchEnd(product, plan);
  }
}

}  // namespace

Status LaunchPointwise(const ManyRowsProduct& product, const WarpgroupPlan& plan, const ManyRowsPointers& at,
                       device::Stream stream) {
  return product.type == DataType::kFloat16 ? Launch<Half>(product, plan, at, stream)
                                            : Launch<BFloat16>(product, plan, at, stream);
}

}  // namespace cudaep::kernels
