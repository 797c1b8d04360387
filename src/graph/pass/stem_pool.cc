#include "graph/pass/stem_pool.h"

#include <algorithm>

#include "graph/pass/rewrite.h"
#include "kernels/conv/stem_conv.h"
#include "ops/conv/window.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

bool IsAll(const std::vector<int64_t>& values, int64_t wanted) {
  return std::ranges::all_of(values, [&](int64_t value) { return value == wanted; });
}

void Fuse(const Rewriter& rewrite, int index) {
  const ir::Node& pool = rewrite.node(index);
  if (!pool.Is("MaxPool", ops::kNhwcDomain)) return;
  const ir::Node* const stem = rewrite.match.Maker(pool.inputs[0]);
  if (stem == nullptr || stem->domain != ops::kFusedDomain) return;
  if (stem->op_type != "StemConv" && stem->op_type != "QuantizedStem") return;
  if (rewrite.match.uses().OnlyReader(pool.inputs[0]) != index) {
    return rewrite.Miss(index, "others read the convolution, too");
  }
  const auto window = ops::ParseWindow(ir::NodeInfo(rewrite.graph, pool, rewrite.settings()));
  if (!window.ok()) return;
  const bool has_pads = window.value().auto_pad == ops::AutoPad::kNotSet;
  const bool is_taken = IsAll(window.value().kernel, kernels::kStemPool) && window.value().strides.size() == 2 &&
                        IsAll(window.value().strides, 2) && IsAll(window.value().dilations, 1) &&
                        (has_pads || window.value().auto_pad == ops::AutoPad::kValid);
  if (!is_taken) return rewrite.Miss(index, "its windows are not 3 x 3, two apart");
  ir::Node fused = rewrite.Instead(index, ops::kFusedDomain, stem->op_type.c_str(), 1);
  fused.inputs = stem->inputs;
  fused.attributes = stem->attributes;
  fused.attributes["max_pool"] = int64_t{1};
  fused.attributes["pool_ceil_mode"] = int64_t{window.value().ceil_mode};
  if (has_pads && !window.value().pads.empty()) fused.attributes["pool_pads"] = window.value().pads;
  if (!rewrite.Replace(index, std::move(fused))) rewrite.Miss(index, "of this activation the kernel has no maxima");
}

}  // namespace

void FuseStemPools(ir::Graph& graph, const PassContext& context) {
  const Rewriter rewrite(graph, context, Fusion::kStemPool);
  for (int n = 0; n < rewrite.node_count(); ++n) Fuse(rewrite, n);
}

}  // namespace cudaep::graph
