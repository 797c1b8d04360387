#include "core/data_type_traits.h"
#include "kernels/common/row_plan.h"
#include "kernels/norm/layer_norm_batch.cuh"
#include "kernels/norm/layer_norm_types.h"

namespace cudaep::kernels {
namespace {

template <class T>
Status LaunchBatch(const LayerNormArgs& args, device::Stream stream) {
  const NormPlan& plan = args.plans->packed;
  constexpr int kPack = RowPack(sizeof(T));
  const LayerNormInput<T, T> in = MakeLayerNormInput<T, T>(args, kPack);
  const LayerNormOutput<T> out{args.y, static_cast<T*>(args.sum), args.mean, args.inv_std};
  const bool rms = args.statistic == RowStatistic::kRms;
  if (!HasSharedColumns(in) || (rms && args.beta != nullptr) || (!rms && args.statistic != RowStatistic::kVariance)) {
    return InvalidArgument("no batches of rows whose scale or shift is not one for all of them");
  }
  const size_t tensors = args.skip == nullptr ? 1 : 2;
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(plan.blocks);
  config.block = {plan.width, plan.rows_per_block, 1};
  config.shared_bytes =
      size_t{plan.width} * plan.rows_per_block * static_cast<size_t>(plan.depth) * tensors * kNormPacks * kPackBytes;
  config.programmatic = true;
  const auto launch = [&](auto kernel) { return device::Launch(kernel, config, stream, in, out, plan.depth); };
  if (args.skip == nullptr) {
    return launch(rms ? LayerNormBatchKernel<T, kPack, false, true> : LayerNormBatchKernel<T, kPack, false, false>);
  }
  return launch(rms ? LayerNormBatchKernel<T, kPack, true, true> : LayerNormBatchKernel<T, kPack, true, false>);
}

}  // namespace

Status LaunchLayerNormBatch(const LayerNormArgs& args, device::Stream stream) {
  const Status refused =
      NotSupported("normalisation of ", DataTypeName(args.x_type), " to ", DataTypeName(args.y_type), " by batches");
  if (args.x_type != args.y_type) return refused;
  return VisitType<kFloat16Types>(args.x_type, refused, [&]<class T>() { return LaunchBatch<T>(args, stream); });
}

}  // namespace cudaep::kernels
