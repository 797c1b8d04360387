// Products of many rows and few inner elements, as convolutions of single pixels are: what they take is what memory
// takes.
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
      return InvalidArgument("no product of pixels ends so");
  }
}

}  // namespace

Status LaunchPixels(const ManyRowsProduct& product, const WarpgroupPlan& plan, const ManyRowsPointers& at,
                    device::Stream stream) {
  return product.type == DataType::kFloat16 ? Launch<Half>(product, plan, at, stream)
                                            : Launch<BFloat16>(product, plan, at, stream);
}

}  // namespace cudaep::kernels
