// The launcher of long rows of one type.
#pragma once

#include "device/occupancy.h"
#include "kernels/common/row_plan.h"
#include "kernels/norm/layer_norm_long.cuh"
#include "kernels/norm/layer_norm_types.h"

namespace cudaep::kernels {

inline device::LaunchConfig LongConfigOf(const NormPlan& plan) {
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(plan.blocks);
  config.block.x = plan.width;
  config.cluster.x = plan.cluster;
  config.shared_bytes = static_cast<size_t>(plan.slots) * LongSlotBytes(plan.width) + LongPartBytes(plan.cluster);
  config.programmatic = true;
  return config;
}

// Calls use(kernel). `columns`: there is a scale for each column.
template <class T, class Use>
auto WithLongKernel(bool columns, Use use) {
  constexpr int kPack = RowPack(sizeof(T));
  return columns ? use(LayerNormLongKernel<T, kPack, true>) : use(LayerNormLongKernel<T, kPack, false>);
}

template <class T>
Status LaunchLong(const LayerNormArgs& args, device::Stream stream) {
  const NormPlan& plan = args.plans->packed;
  const LayerNormInput<T, T> in = MakeLayerNormInput<T, T>(args, RowPack(sizeof(T)));
  const LayerNormOutput<T> out{args.y, nullptr, args.mean, args.inv_std};
  const AffineForm form = FormOf(in);
  if (form == AffineForm::kMixed)
    return InvalidArgument("no long rows whose scale and shift are not both of columns, or both of channels");
  return WithLongKernel<T>(form == AffineForm::kColumns, [&](auto kernel) {
    return device::Launch(kernel, LongConfigOf(plan), stream, in, out, plan.slots);
  });
}

template <class T>
Result<int> ActiveLongClustersOf(const NormPlan& plan) {
  int count = 0;
  CUDAEP_RETURN_IF_ERROR(WithLongKernel<T>(
      true, [&](auto kernel) { return device::MaxActiveClusters(kernel, LongConfigOf(plan), &count); }));
  return count;
}

}  // namespace cudaep::kernels
