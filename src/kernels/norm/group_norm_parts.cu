#include "core/data_type_traits.h"
#include "kernels/norm/group_norm_parts.cuh"

namespace cudaep::kernels {
namespace {

template <class T, int kPack, bool kLast>
Status Launch(const GroupNormArgs& args, device::Stream stream) {
  const GroupNormPlan& plan = *args.plan;
  const GroupNormInput in = MakeGroupNormInput(args);
  const auto* const x = static_cast<const T*>(args.x);
  auto* const parts = static_cast<PartMoments<float>*>(args.parts);
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(plan.images * plan.slices * plan.blocks);
  config.block.x = plan.threads;
  config.shared_bytes = plan.shared_bytes();
  config.programmatic = true;
  CUDAEP_RETURN_IF_ERROR(device::Launch(GroupMomentsKernel<T, kPack>, config, stream, x, parts, in));
  config.shared_bytes = 0;
  return device::Launch(GroupApplyKernel<T, kPack, kLast>, config, stream, x, static_cast<T*>(args.y),
                        static_cast<const PartMoments<float>*>(parts), in);
}

}  // namespace

Status LaunchGroupNormParts(const GroupNormArgs& args, device::Stream stream) {
  const DataType type = args.problem->type;
  return VisitType<kGroupNormTypes>(type, NotSupported("normalisation of groups of ", DataTypeName(type)),
                                    [&]<class T>() {
                                      constexpr int kPack = PackElems(sizeof(T));
                                      return args.problem->channels_last ? Launch<T, kPack, true>(args, stream)
                                                                         : Launch<T, kPack, false>(args, stream);
                                    });
}

}  // namespace cudaep::kernels
