#include "kernels/norm/layer_norm.h"

#include <algorithm>

#include "device/device_info.h"
#include "kernels/common/row_plan.h"
#include "kernels/norm/layer_norm_types.h"

namespace cudaep::kernels {

bool LayerNormSupports(DataType x_type, DataType y_type) {
  if (x_type == y_type) return kFloatTypes.Contains(x_type);
  return (x_type == DataType::kFloat && kFloat16Types.Contains(y_type)) ||
         (y_type == DataType::kFloat && kFloat16Types.Contains(x_type));
}

Result<LayerNormPlans> PlanLayerNorm(const NormProblem& problem, const device::DeviceInfo& device,
                                     const NormChoice& forced) {
  using Kind = NormPlan::Kind;
  LayerNormPlans plans;
  CUDAEP_ASSIGN_OR_RETURN(plans.packed, PlanNorm(problem, device, true, forced));
  if (plans.packed.cluster > 1) {
    // A slice of a device may be too small for any.
    const Result<int> active = plans.packed.kind == Kind::kTeam   ? ActiveTeams(problem.x_type, plans.packed)
                               : plans.packed.kind == Kind::kRing ? ActiveRingClusters(problem.x_type, plans.packed)
                                                                  : ActiveLongClusters(problem.x_type, plans.packed);
    const bool none = !active.ok() || active.value() == 0;
    if (none && plans.packed.cluster > kNormCluster && !forced.kind) {
      // Clusters of that many blocks are not for every device.
      return PlanLayerNorm(problem, device, {Kind::kLong, forced.clusters});
    }
    if (none) {
      NormChoice single_blocks = forced;
      single_blocks.clusters = false;
      CUDAEP_ASSIGN_OR_RETURN(plans.packed, PlanNorm(problem, device, true, single_blocks));
    } else if (plans.packed.kind == Kind::kTeam) {
      // A team that had to wait for another one to end would double the time; where few fit, most of the device idles.
      const int64_t blocks = int64_t{active.value()} * plans.packed.cluster;
      plans.packed.blocks = LongBlocks(std::max<int64_t>(problem.rows, 1), active.value()) * plans.packed.cluster;
      if (!forced.kind && blocks * 4 < int64_t{device.multiprocessors} * 3) {
        CUDAEP_ASSIGN_OR_RETURN(plans.packed, PlanNorm(problem, device, true, {Kind::kLong, false}));
      }
    }
  }
  const bool without_packs = forced.kind == Kind::kDirect || forced.kind == Kind::kStream;
  CUDAEP_ASSIGN_OR_RETURN(plans.single, PlanNorm(problem, device, false, without_packs ? forced : NormChoice{}));
  return plans;
}

Status LaunchLayerNorm(const LayerNormArgs& args, device::Stream stream) {
  if (args.rows == 0) return Status::Ok();
  if (args.elems > kMostRowElems) {
    return NotSupported("normalisation over ", args.elems, " elements, more than ", kMostRowElems);
  }
  return args.x_type == args.y_type ? LaunchLayerNormUniform(args, stream) : LaunchLayerNormMixed(args, stream);
}

}  // namespace cudaep::kernels
