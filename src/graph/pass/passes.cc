#include <iterator>

#include "graph/pass/channels_last.h"
#include "graph/pass/conv_affine.h"
#include "graph/pass/conv_epilogue.h"
#include "graph/pass/pass.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

struct PassEntry {
  Fusion fusion;
  void (*run)(ir::Graph& graph, const PassContext& context);
};

constexpr PassEntry kPasses[] = {
    {Fusion::kConvAffine, FoldIntoConvolutions},
    {Fusion::kConvEpilogue, FuseConvEpilogues},
    {Fusion::kChannelsLast, TurnChannelsLast},
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
  for (const PassEntry& pass : kPasses) {
    if (!settings.fusion_skip.Contains(pass.fusion)) pass.run(graph, {settings, notes});
  }
  return notes;
}

void NodeRemoval::Apply(ir::Graph& graph) const {
  std::vector<ir::Node> kept;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (gone_[n] == 0) kept.push_back(std::move(graph.nodes[n]));
  }
  graph.nodes = std::move(kept);
}

}  // namespace cudaep::graph
