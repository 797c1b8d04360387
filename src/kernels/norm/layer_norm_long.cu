#include "core/data_type_traits.h"
#include "device/occupancy.h"
#include "kernels/common/row_plan.h"
#include "kernels/norm/layer_norm_long.cuh"
#include "kernels/norm/layer_norm_types.h"

namespace cudaep::kernels {
namespace {

constexpr DataTypeSet kLongTypes{DataType::kFloat, DataType::kFloat16, DataType::kBFloat16};

device::LaunchConfig ConfigOf(const NormPlan& plan) {
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(plan.blocks);
  config.block.x = plan.width;
  config.cluster.x = plan.cluster;
  config.shared_bytes =
      static_cast<size_t>(plan.slots) * LongSlotBytes(plan.width) + LongPartBytes(plan.cluster, plan.together);
  config.programmatic = true;
  return config;
}

// Calls use(kernel).
template <class T, class Use>
auto WithKernel(const NormPlan& plan, Use use) {
  constexpr int kPack = RowPack(sizeof(T));
  if (plan.together == 4) return use(LayerNormLongKernel<T, kPack, 4>);
  return plan.together == 2 ? use(LayerNormLongKernel<T, kPack, 2>) : use(LayerNormLongKernel<T, kPack, 1>);
}

template <class T>
Status LaunchLong(const LayerNormArgs& args, device::Stream stream) {
  const NormPlan& plan = args.plans->packed;
  const LayerNormInput<T, T> in = MakeLayerNormInput<T, T>(args, RowPack(sizeof(T)));
  const LayerNormOutput<T> out{args.y, nullptr, args.mean, args.inv_std};
  if (plan.together > 1 && !HasSharedColumns(in)) {
    return InvalidArgument("no long rows that go together and have scales of their own");
  }
  return WithKernel<T>(
      plan, [&](auto kernel) { return device::Launch(kernel, ConfigOf(plan), stream, in, out, plan.slots); });
}

Status Refused(DataType x, DataType y) {
  return NotSupported("normalisation of long rows of ", DataTypeName(x), " to ", DataTypeName(y));
}

}  // namespace

Status LaunchLayerNormLong(const LayerNormArgs& args, device::Stream stream) {
  const Status refused = Refused(args.x_type, args.y_type);
  if (args.x_type != args.y_type || args.skip != nullptr) return refused;
  return VisitType<kLongTypes>(args.x_type, refused, [&]<class T>() { return LaunchLong<T>(args, stream); });
}

Result<int> ActiveLongClusters(DataType type, const NormPlan& plan) {
  int count = 0;
  CUDAEP_RETURN_IF_ERROR(VisitType<kLongTypes>(type, Refused(type, type), [&]<class T>() {
    return WithKernel<T>(plan, [&](auto kernel) { return device::MaxActiveClusters(kernel, ConfigOf(plan), &count); });
  }));
  return count;
}

}  // namespace cudaep::kernels
