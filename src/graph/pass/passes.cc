#include <algorithm>
#include <iterator>

#include "core/strings.h"
#include "graph/ir/dims.h"
#include "graph/pass/activation.h"
#include "graph/pass/attention.h"
#include "graph/pass/chains.h"
#include "graph/pass/channels_last.h"
#include "graph/pass/conv_affine.h"
#include "graph/pass/conv_epilogue.h"
#include "graph/pass/decoder_attention.h"
#include "graph/pass/embedding.h"
#include "graph/pass/embedding_bag.h"
#include "graph/pass/fold.h"
#include "graph/pass/gated_products.h"
#include "graph/pass/group_norm.h"
#include "graph/pass/image_parts.h"
#include "graph/pass/joins.h"
#include "graph/pass/norm.h"
#include "graph/pass/norm_products.h"
#include "graph/pass/once.h"
#include "graph/pass/pass.h"
#include "graph/pass/product_epilogue.h"
#include "graph/pass/projections.h"
#include "graph/pass/qdq.h"
#include "graph/pass/rotary.h"
#include "graph/pass/short_products.h"
#include "graph/pass/skip_norm.h"
#include "graph/pass/stem_pool.h"
#include "graph/pass/views.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

struct PassEntry {
  Fusion fusion;
  void (*run)(ir::Graph& graph, const PassContext& context);
};

constexpr PassEntry kPasses[] = {
    {Fusion::kEmbeddingBag, FuseEmbeddingBags},
    {Fusion::kQdq, FuseQuantized},
    {Fusion::kConvAffine, FoldIntoConvolutions},
    {Fusion::kConvEpilogue, FuseConvEpilogues},
    {Fusion::kGroupNorm, FuseGroupNorms},
    {Fusion::kChannelsLast, TurnChannelsLast},
    {Fusion::kStemPool, FuseStemPools},
    {Fusion::kImageParts, PlaceImageParts},
    {Fusion::kActivation, FuseActivations},
    {Fusion::kNorm, FuseNorms},
    {Fusion::kJoins, JoinParts},
    {Fusion::kViews, ComposeViews},
    {Fusion::kRotary, FuseRotary},
    {Fusion::kAttention, FuseAttention},
    {Fusion::kDecoderAttention, FuseDecoderAttention},
    {Fusion::kProductEpilogue, FuseProductEpilogues},
    {Fusion::kProjections, MergeProjections},
    {Fusion::kGatedProducts, FuseGatedProducts},
    {Fusion::kEmbedding, FuseEmbeddings},
    {Fusion::kSkipNorm, FuseSkipNorms},
    {Fusion::kChains, FuseChains},
    {Fusion::kShortProducts, MarkShortProducts},
    {Fusion::kNormProducts, MoveNormsIntoProducts},
    {Fusion::kOnce, MarkOnce},
};
static_assert(std::size(kPasses) == kFusionCount);

}  // namespace

std::string Describe(const FusionNote& note) {
  std::string text = StrCat("fusion ", FusionName(note.fusion), note.missed.empty() ? ": " : " left alone: ");
  for (size_t i = 0; i < note.sources.size(); ++i) text += StrCat(i == 0 ? "" : " + ", note.sources[i]);
  if (!note.missed.empty()) text += StrCat("; ", note.missed);
  return text;
}

bool PassContext::IsSupported(const ir::Graph& graph, const ir::Node& node) const {
  const ops::KernelRow* const row = ops::FindRow(node.domain, node.op_type, node.since_version);
  return row != nullptr && ops::MakeOperator(ir::NodeInfo(graph, node, settings), *row).ok();
}

std::vector<FusionNote> RunPasses(ir::Graph& graph, const Settings& settings) {
  std::vector<FusionNote> notes;
  if (!settings.fusion) return notes;
  FoldKnown(graph, ir::StateDims(graph), settings);
  for (const PassEntry& pass : kPasses) {
    if (settings.fusion_skip.Contains(pass.fusion)) continue;
    pass.run(graph, {settings, notes});
    RemoveDeadNodes(graph);
  }
  return notes;
}

void RemoveDeadNodes(ir::Graph& graph) {
  if (graph.outputs.empty()) return;
  std::vector<uint8_t> needed(graph.values.size(), 0);
  for (const int output : graph.outputs) needed[static_cast<size_t>(output)] = 1;
  NodeRemoval gone(graph);
  for (size_t n = graph.nodes.size(); n-- > 0;) {
    const ir::Node& node = graph.nodes[n];
    const bool is_needed = std::ranges::any_of(
        node.outputs, [&](int value) { return value >= 0 && needed[static_cast<size_t>(value)] != 0; });
    if (!is_needed) gone.Mark(static_cast<int>(n));
    for (const int input : node.inputs) {
      if (is_needed && input >= 0) needed[static_cast<size_t>(input)] = 1;
    }
  }
  gone.Apply(graph);
}

void NodeRemoval::Apply(ir::Graph& graph) const {
  std::vector<ir::Node> kept;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (gone_[n] == 0) kept.push_back(std::move(graph.nodes[n]));
  }
  graph.nodes = std::move(kept);
}

}  // namespace cudaep::graph
