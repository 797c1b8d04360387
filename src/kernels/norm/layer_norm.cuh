// The launcher of layer and RMS normalisation for one pair of types.
#pragma once

#include <algorithm>

#include "kernels/common/row_plan.h"
#include "kernels/norm/layer_norm_rows.cuh"
#include "kernels/norm/layer_norm_stream.cuh"

namespace cudaep::kernels {

inline FastDivider Repeats(const AffineMap& map) {
  return FastDivider(static_cast<uint32_t>(std::max<int64_t>(map.column_repeat, 1)));
}

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
  const LayerNormInput<T, V> in{.x = static_cast<const T*>(args.x),
                                .skip = static_cast<const T*>(args.skip),
                                .bias = static_cast<const T*>(args.bias),
                                .scale = static_cast<const V*>(args.scale),
                                .beta = static_cast<const V*>(args.beta),
                                .rows = args.rows,
                                .skip_rows = args.skip_rows,
                                .elems = static_cast<int32_t>(args.elems),
                                .row_packs = static_cast<int32_t>(args.elems / plan.pack),
                                .scale_map = args.scale_map,
                                .beta_map = args.beta_map,
                                .scale_repeat = Repeats(args.scale_map),
                                .beta_repeat = Repeats(args.beta_map),
                                .epsilon = args.epsilon,
                                .statistic = args.statistic,
                                .double_statistics = args.double_statistics ? 1 : 0};
  const LayerNormOutput<T> out{args.y, static_cast<T*>(args.sum), args.mean, args.inv_std};
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(plan.blocks);
  config.block = {plan.width, plan.rows_per_block, 1};
  config.cluster.x = plan.cluster;
  config.programmatic = true;
  const auto stream_rows = [&](auto kernel) { return device::Launch(kernel, config, stream, in, out); };
  const auto rows = [&](auto kernel) { return device::Launch(kernel, config, stream, in, out, plan.depth); };
  const auto direct = [&]<int kPackElems, int kPacks>() {
    return args.skip == nullptr ? rows(LayerNormRowsKernel<T, V, kPackElems, kPacks, false, false,
                                                           DirectRows<T, kPackElems, kPacks, false>>)
                                : rows(LayerNormRowsKernel<T, V, kPackElems, kPacks, true, false,
                                                           DirectRows<T, kPackElems, kPacks, true>>);
  };
  if (plan.pack == 1) {
    if (plan.kind == NormPlan::Kind::kStream) return stream_rows(LayerNormStreamKernel<T, V, 1>);
    return direct.template operator()<1, kScalarPacks>();
  }
  if constexpr (kPack > 1) {
    if (plan.kind == NormPlan::Kind::kStream) return stream_rows(LayerNormStreamKernel<T, V, kPack>);
    if (plan.kind == NormPlan::Kind::kDirect) {
      return plan.packs_per_thread == 1 ? direct.template operator()<kPack, 1>()
                                        : direct.template operator()<kPack, kNormPacks>();
    }
    if constexpr (std::is_same_v<T, V>) {
      const int tensors = args.skip == nullptr ? 1 : 2;
      config.shared_bytes = static_cast<size_t>(plan.depth) * static_cast<size_t>(tensors) * plan.width *
                            plan.rows_per_block * kNormPacks * kPackBytes;
      const auto ring = [&]<bool kCluster>() {
        return args.skip == nullptr ? rows(LayerNormRowsKernel<T, V, kPack, kNormPacks, false, kCluster,
                                                               RingRows<T, kPack, kNormPacks, false>>)
                                    : rows(LayerNormRowsKernel<T, V, kPack, kNormPacks, true, kCluster,
                                                               RingRows<T, kPack, kNormPacks, true>>);
      };
      return plan.cluster == 1 ? ring.template operator()<false>() : ring.template operator()<true>();
    }
  }
  return InvalidArgument("no such plan for normalisation of ", args.elems, " elements");
}

}  // namespace cudaep::kernels
