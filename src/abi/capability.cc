#include "abi/capability.h"

#include "abi/graph_view.h"

namespace cudaep::abi {
namespace {

void LogTo(const OrtLogger* logger, OrtLoggingLevel level, const std::string& text) {
  if (logger == nullptr) return;
  FromOrt(Host().ort->Logger_LogMessage(logger, level, text.c_str(), "capability.cc", __LINE__, "ort-cuda-ep"))
      .IgnoreError();
}

}  // namespace

Status ClaimNodes(const OrtGraph* graph, OrtEpGraphSupportInfo* support, const SessionState& state,
                  const std::string& ep_name, const OrtLogger* logger) {
  CUDAEP_ASSIGN_OR_RETURN(const GraphView view, ReadGraph(graph, support, state.settings(), ep_name));
  const std::vector<bool> shape_nodes = graph::FindShapeNodes(view.placement);
  size_t claimed = 0, shapes = 0;
  std::string others;
  for (size_t i = 0; i < view.nodes.size(); ++i) {
    const GraphView::NodeFacts& facts = view.nodes[i];
    if (view.placement.nodes[i].claimed && !shape_nodes[i]) {
      CUDAEP_RETURN_IF_ORT_ERROR(Host().ep->EpGraphSupportInfo_AddSingleNode(support, facts.node));
      ++claimed;
    } else if (view.placement.nodes[i].claimed) {
      ++shapes;
    } else if (!facts.taken) {
      others += StrCat("\n  ", facts.label, ": ", facts.reason);
    }
  }
  LogTo(logger, ORT_LOGGING_LEVEL_INFO,
        StrCat(ep_name, ": ", claimed, " of ", view.nodes.size(), " nodes, ", shapes, " shape nodes left to the CPU",
               others.empty() ? "" : "; no kernel for:", others));
  return Status::Ok();
}

}  // namespace cudaep::abi
