#include "core/data_type_traits.h"
#include "kernels/norm/group_norm_whole.cuh"

namespace cudaep::kernels {
namespace {

template <class T, bool kLast>
Status Launch(const GroupNormArgs& args, device::Stream stream) {
  constexpr int kPack = PackElems(sizeof(T));
  const GroupNormPlan& plan = *args.plan;
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(plan.images * plan.slices * plan.blocks);
  config.block.x = plan.threads;
  config.cluster.x = static_cast<unsigned>(plan.blocks);
  config.shared_bytes = plan.shared_bytes();
  config.programmatic = true;
  const auto launch = [&](auto kernel) {
    return device::Launch(kernel, config, stream, static_cast<const T*>(args.x), static_cast<T*>(args.y),
                          MakeGroupNormInput(args));
  };
  return plan.held <= 4 ? launch(GroupNormKernel<T, kPack, 4, kLast>) : launch(GroupNormKernel<T, kPack, 8, kLast>);
}

}  // namespace

Status LaunchGroupNormWhole(const GroupNormArgs& args, device::Stream stream) {
  const DataType type = args.problem->type;
  return VisitType<kGroupNormTypes>(
      type, NotSupported("normalisation of groups of ", DataTypeName(type)), [&]<class T>() {
        return args.problem->channels_last ? Launch<T, true>(args, stream) : Launch<T, false>(args, stream);
      });
}

}  // namespace cudaep::kernels
