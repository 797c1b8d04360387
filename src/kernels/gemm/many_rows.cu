#include "kernels/gemm/many_rows.cuh"

namespace cudaep::kernels {
namespace {

template <class T>
using WithGelu = RowsFinish<T, RowsActivation::kGeluErf, false, false, WarpgroupTiles::kSmall, WarpgroupTiles::kWide,
                            WarpgroupTiles::kTurns>;
template <class T>
using Plain = RowsFinish<T, RowsActivation::kNone, false, false, WarpgroupTiles::kBroad, WarpgroupTiles::kTurns>;

}  // namespace

Status NoSuchEnd(const ManyRowsProduct& p, const WarpgroupPlan& plan) {
  return InvalidArgument("no product of many rows, [", p.m, ',', p.k, "] by [", p.n, ',', p.k, "], by tiles of ",
                         WarpgroupRows(plan.tiles), " x ", WarpgroupColumns(plan.tiles), ", has ",
                         p.residual ? "a residual and " : "no residual and ", "activation ",
                         ActivationName(p.activation));
}

Status LaunchManyRows(const ManyRowsProduct& product, const WarpgroupPlan& plan, const ManyRowsPointers& at,
                      device::Stream stream) {
  if (product.m == 0 || product.n == 0) return Status::Ok();
  if (product.type != DataType::kFloat16 && product.type != DataType::kBFloat16) {
    return NotSupported("a product of many rows of ", DataTypeName(product.type));
  }
  if (product.n % kManyRowsColumns != 0 || product.k <= 0 || product.k % kManyRowsPack != 0) {
    return InvalidArgument("a product of many rows, [", product.m, ',', product.k, "] by [", product.n, ',', product.k,
                           "], that is no whole packs");
  }
  if (product.residual && at.residual == nullptr) return InvalidArgument("a product of many rows misses its residual");
  if (IsFlat(plan.tiles)) return LaunchFlatRows(product, plan, at, stream);
  const auto launch = [&]<class T>() {
    if (product.activation == Activation::kGeluErf && !product.residual) {
      return LaunchRows<WithGelu<T>>(product, plan, at, stream);
    }
    if (!Plain<T>::Takes(plan.tiles)) return LaunchPointwise(product, plan, at, stream);
    if (product.activation == Activation::kNone && !product.residual) {
      return LaunchRows<Plain<T>>(product, plan, at, stream);
    }
    return NoSuchEnd(product, plan);
  };
  return product.type == DataType::kFloat16 ? launch.template operator()<Half>()
                                            : launch.template operator()<BFloat16>();
}

}  // namespace cudaep::kernels
