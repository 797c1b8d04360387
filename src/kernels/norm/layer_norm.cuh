// The launcher of layer and RMS normalisation for one pair of types.
#pragma once

#include "kernels/common/row_plan.h"
#include "kernels/norm/layer_norm_rows.cuh"
#include "kernels/norm/layer_norm_stream.cuh"
#include "kernels/norm/layer_norm_types.h"

namespace cudaep::kernels {

template <class T, class V>
Status LaunchLayerNormTypes(const LayerNormArgs& args, device::Stream stream) {
  constexpr size_t kWidest = sizeof(T) > sizeof(V) ? sizeof(T) : sizeof(V);
  constexpr int kPack = RowPack(kWidest);
  bool aligned = true;
  for (const void* p : {args.x, args.skip, args.bias, static_cast<const void*>(args.sum)}) {
    aligned = aligned && IsAligned(p, kPack * sizeof(T));
  }
  for (const void* p : {args.scale, args.beta, static_cast<const void*>(args.y)}) {
    aligned = aligned && IsAligned(p, kPack * sizeof(V));
  }
  const NormPlan& plan = aligned ? args.plans->packed : args.plans->single;
  if (plan.kind == NormPlan::Kind::kBatch) return LaunchLayerNormBatch(args, stream);
  if (plan.kind == NormPlan::Kind::kTeam) return LaunchLayerNormTeam(args, stream);
  if (plan.kind == NormPlan::Kind::kRing) return LaunchLayerNormRing(args, stream);
  if (plan.kind == NormPlan::Kind::kLong) return LaunchLayerNormLong(args, stream);
  const LayerNormInput<T, V> in = MakeLayerNormInput<T, V>(args, plan.pack);
  const LayerNormOutput<T> out{args.y, static_cast<T*>(args.sum), args.mean, args.inv_std};
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(plan.blocks);
  config.block = {plan.width, plan.rows_per_block, 1};
  config.programmatic = true;
  const auto launch = [&](auto kernel) { return device::Launch(kernel, config, stream, in, out); };
  const auto direct = [&]<int kPackElems, int kPacks, bool kShared = false>() {
    return args.skip == nullptr ? launch(LayerNormRowsKernel<T, V, kPackElems, kPacks, false, kShared>)
                                : launch(LayerNormRowsKernel<T, V, kPackElems, kPacks, true, kShared>);
  };
  if (plan.pack == 1) {
    if (plan.kind == NormPlan::Kind::kStream) return launch(LayerNormStreamKernel<T, V, 1>);
    return direct.template operator()<1, kScalarPacks>();
  }
  if constexpr (kPack > 1) {
    if (plan.kind == NormPlan::Kind::kStream) return launch(LayerNormStreamKernel<T, V, kPack>);
    if (plan.kind == NormPlan::Kind::kDirect) {
      if (plan.packs_per_thread > 1) return direct.template operator()<kPack, kNormPacks>();
      if constexpr (std::is_same_v<T, V>) {
        if (plan.width % 32 == 0 && HasSharedColumns(in)) return direct.template operator()<kPack, 1, true>();
      }
      return direct.template operator()<kPack, 1>();
    }
  }
  return InvalidArgument("no such plan for normalisation of ", args.elems, " elements");
}

}  // namespace cudaep::kernels
