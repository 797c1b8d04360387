#include "abi/capability.h"

#include <algorithm>

#include "abi/graph_view.h"
#include "abi/host_graph.h"
#include "core/log.h"
#include "core/strings.h"
#include "device/device.h"
#include "graph/capture_check.h"
#include "graph/copies.h"
#include "lib/report.h"
#include "ops/registry.h"

namespace cudaep::abi {
namespace {

void LogTo(const OrtLogger* logger, OrtLoggingLevel level, const std::string& text) {
  if (logger == nullptr) return;
  FromOrt(Host().ort->Logger_LogMessage(logger, level, text.c_str(), "capability.cc", __LINE__, "ort-cuda-ep"))
      .IgnoreError();
}

// Null for a graph without nodes, or where the host cannot say.
const OrtNode* FirstNode(const OrtGraph* graph) {
  Result<std::vector<const OrtNode*>> nodes = NodesOf(graph);
  return nodes.ok() && !nodes->empty() ? nodes->front() : nullptr;
}

// Claims nodes to be one, which the host gives to Compile. Their constants stay with us.
Status ClaimForCompilation(OrtEpGraphSupportInfo* support, std::span<const OrtNode* const> nodes) {
  OrtNodeFusionOptions options{};
  options.ort_version_supported = Host().version;
  options.drop_constant_initializers = true;
  CUDAEP_RETURN_IF_ORT_ERROR(
      Host().ep->EpGraphSupportInfo_AddNodesToFuse(support, nodes.data(), nodes.size(), &options));
  return Status::Ok();
}

// Which constants have one reader.
void TellReaders(const GraphView& view, SessionState& state) {
  std::vector<int> readers(view.placement.values.size());
  const auto read = [&](int value) {
    if (value >= 0) ++readers[static_cast<size_t>(value)];
  };
  for (size_t i = 0; i < view.nodes.size(); ++i) {
    for (const graph::PlacementUse& use : view.placement.nodes[i].inputs) read(use.value);
    for (const int value : view.regions[i].read_inside) read(value), read(value);  // by how many nodes is not known
  }
  for (size_t v = 0; v < readers.size(); ++v) {
    const graph::PlacementValue& value = view.placement.values[v];
    if (value.constant) state.ConstantSeen(value.name, readers[v] == 1 && !value.graph_output);
  }
}

}  // namespace

Status Capability::Claim(const OrtGraph* graph, OrtEpGraphSupportInfo* support, SessionState& state,
                         const std::string& ep_name, const OrtLogger* logger) {
  const OrtNode* carrier = nullptr;
  refusal_ = ClaimFrom(graph, support, state, ep_name, logger, &carrier);
  if (refusal_.ok()) return Status::Ok();
  if (carrier == nullptr) carrier = FirstNode(graph);
  if (carrier == nullptr) return refusal_;
  return ClaimForCompilation(support, {&carrier, 1});
}

bool Capability::MayTurnChannelsLast(std::string_view op) const {
  const auto& rows = ops::AllRows();
  const bool has_rows = std::any_of(rows.begin(), rows.end(), [&](const ops::KernelRow& row) {
    return std::string_view(row.domain) == ops::kNhwcDomain && row.op == op;
  });
  return has_rows && !channels_first_only_.contains(op);
}

// `carrier` is the node that a refusal is attached to. One of ours where there is any: before partitioning, the host
// asks once more for models with functions of their own, to replace the calls that nobody takes by the function's
// nodes. Such a call must stay unclaimed then, and the refusal is dropped, since the host asks again afterwards. So
// what a refusal may get wrong is a graph of one such call and nothing else.
Status Capability::ClaimFrom(const OrtGraph* graph, OrtEpGraphSupportInfo* support, SessionState& state,
                             const std::string& ep_name, const OrtLogger* logger, const OrtNode** carrier) {
  CUDAEP_ASSIGN_OR_RETURN(GraphView view, ReadGraph(graph, support, state.settings(), ep_name, report_));
  if (!view.report.parent.empty()) state.InnerGraphSeen();
  TellReaders(view, state);
  channels_first_only_.merge(view.channels_first_only);
  ClaimSegmentLoops(state.settings(), &view);
  const std::vector<bool> shape_nodes = graph::FindShapeNodes(view.placement);
  for (size_t i = 0; i < view.nodes.size(); ++i) {
    graph::NodeReport& report = view.report.nodes[i];
    if (shape_nodes[i]) {
      report.home = graph::NodeHome::kShapeNode;
      report.reason.clear();
    }
  }
  CUDAEP_RETURN_IF_ERROR(ApplyBudget(graph, state, &view, ep_name, logger));
  for (size_t i = 0; i < view.nodes.size() && *carrier == nullptr; ++i) {
    if (view.report.nodes[i].home == graph::NodeHome::kOurs) *carrier = view.nodes[i];
  }
  const std::vector<RegionClaims::Region> regions = FindRegions(state.settings(), shape_nodes, &view);
  LogTo(logger, ORT_LOGGING_LEVEL_INFO, StrCat(ep_name, ": ", graph::Summary(view.report)));
  const bool is_main = view.report.parent.empty();
  const Settings& settings = state.settings();
  Status refusal = graph::CheckOwnOperators(view.report);
  if (is_main) {
    WarnOf(view.report, ep_name, logger);
    for (const graph::FusionNote& note : segment_loops_.missed()) Log(LogLevel::kVerbose, graph::Describe(note));
  }
  if (settings.require_all_compute_nodes && refusal.ok() && is_main)
    refusal = CheckAllComputeNodes(view.report, ep_name);
  if (settings.enable_cuda_graph && refusal.ok() && is_main)
    refusal = graph::CheckCapturable(view.placement, view.report);
  view.report.copies = graph::FindCopies(view.placement, view.report);
  report_.Add(view.report);
  if (Status written = WriteReport(settings, ep_name); refusal.ok()) refusal = std::move(written);

  std::vector<bool> joined(view.nodes.size());
  for (size_t i = 0; i < view.nodes.size(); ++i) joined[i] = view.regions[i].is_region;
  if (refusal.ok()) {
    for (const RegionClaims::Region& region : regions) {
      std::vector<const OrtNode*> nodes;
      for (const int index : region.nodes) {
        nodes.push_back(view.nodes[static_cast<size_t>(index)]);
        joined[static_cast<size_t>(index)] = true;
      }
      CUDAEP_RETURN_IF_ERROR(ClaimForCompilation(support, nodes));
    }
  }
  for (size_t i = 0; i < view.nodes.size(); ++i) {
    const bool ours = view.report.nodes[i].home == graph::NodeHome::kOurs;
    if (!ours || joined[i] || (!refusal.ok() && view.nodes[i] == *carrier)) continue;
    CUDAEP_RETURN_IF_ORT_ERROR(Host().ep->EpGraphSupportInfo_AddSingleNode(support, view.nodes[i]));
  }
  return refusal;
}

// Values of graphs inside control flow may lie in either memory, and the host turns layouts node by node.
bool Capability::MayCompile(const Settings& settings, const GraphView& view) const {
  return settings.compiled_regions && view.report.parent.empty() && !settings.prefer_nhwc;
}

// A budget counts a Loop's nodes one by one. What no region takes is placed as if it had not been claimed.
void Capability::ClaimSegmentLoops(const Settings& settings, GraphView* view) {
  const bool is_on = settings.fusion && !settings.fusion_skip.Contains(Fusion::kEmbeddingBag);
  if (!is_on || budget_ || !MayCompile(settings, *view) || !segment_loops_.Claim(settings, view)) return;
  while (segment_loops_.GiveBack(regions_.Find(*view, graph::FindShapeNodes(view->placement)), view)) {
  }
}

// The host asks for the graphs inside nodes before it asks for the one around them, and only there is it known what
// becomes of the nodes.
void Capability::WarnOf(const graph::GraphReport& main, const std::string& ep_name, const OrtLogger* logger) {
  std::vector<std::string> warnings;
  for (const graph::GraphReport* inner : report_.Within(main)) warnings.push_back(graph::Warning(*inner));
  warnings.push_back(graph::Warning(main));
  std::erase(warnings, std::string());
  if (warnings == warned_) return;  // the host asks again for graphs that did not change
  for (const std::string& warning : warnings) {
    LogTo(logger, ORT_LOGGING_LEVEL_WARNING, StrCat(ep_name, ": ", warning));
  }
  warned_ = std::move(warnings);
}

Status Capability::CheckAllComputeNodes(const graph::GraphReport& main, const std::string& ep_name) const {
  for (const graph::GraphReport* inner : report_.Within(main)) {
    CUDAEP_RETURN_IF_ERROR(graph::CheckAllComputeNodes(*inner, ep_name));
  }
  return graph::CheckAllComputeNodes(main, ep_name);
}

std::vector<RegionClaims::Region> Capability::FindRegions(const Settings& settings,
                                                          const std::vector<bool>& shape_nodes, GraphView* view) {
  if (!MayCompile(settings, *view)) return {};
  std::vector<RegionClaims::Region> regions = regions_.Find(*view, shape_nodes);
  int number = report_.AddRegions(regions.size());
  for (const RegionClaims::Region& region : regions) {
    if (budget_) budget_->Join(*view, region.nodes);
    for (const int node : region.nodes) view->report.nodes[static_cast<size_t>(node)].region = number;
    for (const int node : region.evaluated) {
      view->report.nodes[static_cast<size_t>(node)].home = graph::NodeHome::kEvaluated;
    }
    ++number;
  }
  segment_loops_.Report(*view, &report_);
  return regions;
}

Status Capability::Report(const std::vector<Compiled>& regions, const SessionState& state, const std::string& ep_name) {
  for (const auto& [first_output, region] : regions) report_.SetRegion(first_output, region);
  return WriteReport(state.settings(), ep_name);
}

Status Capability::WriteReport(const Settings& settings, const std::string& ep_name) const {
  if (settings.placement_report.empty()) return Status::Ok();
  return graph::WriteReport(settings.placement_report,
                            report_.ToJson(ep_name, device::BackendName(), lib::ReportLibraries()));
}

Status Capability::ApplyBudget(const OrtGraph* graph, SessionState& state, GraphView* view, const std::string& ep_name,
                               const OrtLogger* logger) {
  if (!budget_) return Status::Ok();
  std::string note;
  CUDAEP_RETURN_IF_ERROR(budget_->Apply(
      graph, state, [this](std::string_view op) { return MayTurnChannelsLast(op); }, view, &note));
  if (!note.empty() && note != budget_note_) {
    LogTo(logger, ORT_LOGGING_LEVEL_WARNING, StrCat(ep_name, ": ", note));
    budget_note_ = std::move(note);
  }
  report_.SetBudget(budget_->Report());
  return Status::Ok();
}

}  // namespace cudaep::abi
