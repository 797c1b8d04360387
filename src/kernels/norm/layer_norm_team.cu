#include "core/data_type_traits.h"
#include "device/occupancy.h"
#include "kernels/common/row_plan.h"
#include "kernels/norm/layer_norm_team.cuh"
#include "kernels/norm/layer_norm_types.h"

namespace cudaep::kernels {
namespace {

constexpr DataTypeSet kTeamTypes{DataType::kFloat, DataType::kFloat16, DataType::kBFloat16};

device::LaunchConfig ConfigOf(const NormPlan& plan) {
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(plan.blocks);
  config.block.x = plan.width;
  config.cluster.x = plan.cluster;
  config.shared_bytes =
      size_t{kTeamWarps} * static_cast<size_t>(plan.depth) * static_cast<size_t>(plan.piece) * kPackBytes;
  config.programmatic = true;
  return config;
}

template <class T>
Status LaunchTeam(const LayerNormArgs& args, device::Stream stream) {
  const NormPlan& plan = args.plans->packed;
  const LayerNormInput<T, T> in = MakeLayerNormInput<T, T>(args, RowPack(sizeof(T)));
  const LayerNormOutput<T> out{args.y, nullptr, args.mean, args.inv_std};
  if (!HasSharedColumns(in)) return InvalidArgument("no team for rows whose scale or shift is not one for all of them");
  return device::Launch(LayerNormTeamKernel<T, RowPack(sizeof(T))>, ConfigOf(plan), stream, in, out, plan.piece,
                        plan.depth);
}

Status Refused(DataType x, DataType y) {
  return NotSupported("normalisation of ", DataTypeName(x), " to ", DataTypeName(y), " by teams");
}

}  // namespace

Status LaunchLayerNormTeam(const LayerNormArgs& args, device::Stream stream) {
  const Status refused = Refused(args.x_type, args.y_type);
  if (args.x_type != args.y_type || args.skip != nullptr) return refused;
  return VisitType<kTeamTypes>(args.x_type, refused, [&]<class T>() { return LaunchTeam<T>(args, stream); });
}

Result<int> ActiveTeams(DataType type, const NormPlan& plan) {
  int count = 0;
  CUDAEP_RETURN_IF_ERROR(VisitType<kTeamTypes>(type, Refused(type, type), [&]<class T>() {
    return device::MaxActiveClusters(LayerNormTeamKernel<T, RowPack(sizeof(T))>, ConfigOf(plan), &count);
  }));
  return count;
}

}  // namespace cudaep::kernels
