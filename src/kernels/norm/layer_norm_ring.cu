#include "core/data_type_traits.h"
#include "device/occupancy.h"
#include "kernels/common/row_plan.h"
#include "kernels/norm/layer_norm_ring.cuh"
#include "kernels/norm/layer_norm_types.h"

namespace cudaep::kernels {
namespace {

constexpr DataTypeSet kRingTypes{DataType::kFloat, DataType::kFloat16, DataType::kBFloat16};

device::LaunchConfig ConfigOf(const NormPlan& plan) {
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(plan.blocks);
  config.block.x = plan.width;
  config.cluster.x = plan.cluster;
  config.shared_bytes = size_t{plan.width} * static_cast<size_t>(plan.slots) * kNormPacks * kPackBytes;
  config.programmatic = true;
  return config;
}

template <class T>
Status LaunchRing(const LayerNormArgs& args, device::Stream stream) {
  const NormPlan& plan = args.plans->packed;
  const LayerNormInput<T, T> in = MakeLayerNormInput<T, T>(args, RowPack(sizeof(T)));
  const LayerNormOutput<T> out{args.y, nullptr, args.mean, args.inv_std};
  return device::Launch(LayerNormRingKernel<T, RowPack(sizeof(T))>, ConfigOf(plan), stream, in, out, plan.slots);
}

Status Refused(DataType x, DataType y) {
  return NotSupported("normalisation of ", DataTypeName(x), " to ", DataTypeName(y), " by rings");
}

}  // namespace

Status LaunchLayerNormRing(const LayerNormArgs& args, device::Stream stream) {
  const Status refused = Refused(args.x_type, args.y_type);
  if (args.x_type != args.y_type || args.skip != nullptr) return refused;
  return VisitType<kRingTypes>(args.x_type, refused, [&]<class T>() { return LaunchRing<T>(args, stream); });
}

Result<int> ActiveRingClusters(DataType type, const NormPlan& plan) {
  int count = 0;
  CUDAEP_RETURN_IF_ERROR(VisitType<kRingTypes>(type, Refused(type, type), [&]<class T>() {
    return device::MaxActiveClusters(LayerNormRingKernel<T, RowPack(sizeof(T))>, ConfigOf(plan), &count);
  }));
  return count;
}

}  // namespace cudaep::kernels
