#include "graph/placement_report.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <set>

#include "core/strings.h"
#include "graph/report_text.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

constexpr size_t kMostNamed = 20;  // an error text is read by a person; the file has all of them

const char* PlacementName(NodeHome home) {
  switch (home) {
    case NodeHome::kOurs:
      return "provider";
    case NodeHome::kShapeNode:
      return "shape";
    case NodeHome::kEvaluated:
      return "evaluated";
    case NodeHome::kOtherTaken:
      return "other";
    case NodeHome::kUnsupported:
      return "unsupported";
    case NodeHome::kOverBudget:
      return "budget";
  }
  return "";
}

bool IsElsewhere(const NodeReport& node) {
  return node.home == NodeHome::kOtherTaken || node.home == NodeHome::kUnsupported ||
         node.home == NodeHome::kOverBudget;
}

bool IsShape(const NodeReport& node) { return node.home == NodeHome::kShapeNode || node.home == NodeHome::kEvaluated; }

size_t CountOf(const GraphReport& graph, NodeHome home) {
  return static_cast<size_t>(
      std::count_if(graph.nodes.begin(), graph.nodes.end(), [&](const auto& node) { return node.home == home; }));
}

bool IsRefused(const NodeReport& node) {
  return node.home == NodeHome::kUnsupported && (node.domain.empty() || node.domain == "com.microsoft");
}

// One line for each node that is named, up to `most`.
std::string LinesOf(const GraphReport& graph, size_t most, bool (*named)(const NodeReport&)) {
  std::string lines;
  size_t count = 0;
  for (const NodeReport& node : graph.nodes) {
    if (!named(node)) continue;
    if (++count <= most) lines += StrCat("\n  ", Label(node), ": ", node.reason);
  }
  if (count > most) lines += StrCat("\n  and ", count - most, " more");
  return lines;
}

std::string CostText(const NodeCost& cost) {
  return StrCat(", \"cost\": {", Number("bytes", cost.bytes), ", ", Number("weights", cost.weights), ", ",
                Number("copies", cost.copies), ", ", Number("outputs", cost.outputs), ", ",
                Number("workspace", cost.workspace), ", \"recorded\": ", cost.recorded, ", ",
                Field("unknown", cost.unknown), "}");
}

std::string BudgetText(const BudgetReport& budget) {
  return StrCat("\"budget\": {", Number("limit_bytes", budget.limit_bytes), ", \"is_stated\": ", budget.is_stated, ", ",
                Field("stats_file", budget.stats_file), ", ", Number("stated_bytes", budget.stated_bytes), ", ",
                Number("nodes", budget.nodes), ", ", Number("unknown_nodes", budget.unknown_nodes), "},\n");
}

std::string NodeText(const NodeReport& node) {
  return StrCat("{", Field("name", node.name), ", ", Field("first_output", node.first_output), ", ",
                Field("op_type", node.op_type), ", ", Field("domain", node.domain),
                ", \"since_version\": ", node.since_version, ", ", Field("placement", PlacementName(node.home)),
                node.region < 0 ? std::string() : StrCat(", ", Number("region", int64_t{node.region})), ", ",
                Field("reason", node.reason), node.cost ? CostText(*node.cost) : "", "}");
}

std::string CopyText(const CopyReport& copy) {
  return StrCat("{\"to_device\": ", copy.to_device, ", ", Field("value", copy.value), ", ",
                Number("producer", int64_t{copy.producer}),
                ", \"readers\": ", Listed(copy.readers, [](int node) { return StrCat(node); }), "}");
}

std::string LibraryText(const lib::LibraryReport& library) {
  return StrCat("{", Field("name", library.name), ", \"found\": ", library.found, ", ", Field("path", library.path),
                ", ", Field("version", library.version), ", ", Field("status", library.status), "}");
}

std::string GraphText(const GraphReport& graph) {
  return StrCat("{", Field("name", graph.name), ", ", Field("parent", graph.parent),
                ", \"nodes\": ", Array(graph.nodes, NodeText),
                graph.copies.empty() ? std::string() : StrCat(",\n\"copies\": ", Array(graph.copies, CopyText)), "}");
}

}  // namespace

std::string Label(const NodeReport& node) {
  if (node.name.empty()) return StrCat(node.op_type, " node with output '", node.first_output, "'");
  return StrCat(node.op_type, " node '", node.name, "'");
}

std::string IdentityOf(const GraphReport& graph) {
  std::string identity = StrCat(graph.parent, '\n', graph.name);
  for (const std::string& output : graph.outputs) identity += StrCat('\n', output);
  return identity;
}

std::string Summary(const GraphReport& graph) {
  const std::string others = LinesOf(graph, graph.nodes.size(), IsElsewhere);
  std::set<int> regions;
  size_t joined = 0;
  for (const NodeReport& node : graph.nodes) {
    if (node.region < 0) continue;
    regions.insert(node.region);
    ++joined;
  }
  return StrCat(CountOf(graph, NodeHome::kOurs), " of ", graph.nodes.size(), " nodes, ",
                CountOf(graph, NodeHome::kShapeNode), " shape nodes left to the CPU",
                regions.empty() ? std::string()
                                : StrCat(", ", joined, " nodes in ", regions.size(), " compiled regions, ",
                                         CountOf(graph, NodeHome::kEvaluated), " of them shape nodes"),
                others.empty() ? "" : "; elsewhere:", others);
}

std::string Warning(const GraphReport& graph) {
  const std::string lines = LinesOf(graph, kMostNamed, IsRefused);
  if (lines.empty()) return lines;
  return StrCat("left to other providers", graph.parent.empty() ? "" : StrCat(" inside ", graph.parent),
                ", without whose kernels the host ends the session:", lines);
}

Status CheckAllComputeNodes(const GraphReport& graph, std::string_view provider) {
  const auto elsewhere = std::count_if(graph.nodes.begin(), graph.nodes.end(), IsElsewhere);
  if (elsewhere == 0) return Status::Ok();
  return NotSupported("require_all_compute_nodes is set, and ", elsewhere, " of ",
                      std::count_if(graph.nodes.begin(), graph.nodes.end(), std::not_fn(IsShape)), " compute nodes",
                      graph.parent.empty() ? "" : StrCat(" inside ", graph.parent), " are not on ", provider, ":",
                      LinesOf(graph, kMostNamed, IsElsewhere));
}

Status CheckOwnOperators(const GraphReport& graph) {
  const auto is_stranded = [](const NodeReport& node) {
    return node.domain == ops::kOwnDomain && node.home != NodeHome::kOurs;
  };
  if (std::ranges::none_of(graph.nodes, is_stranded)) return Status::Ok();
  return NotSupported("nobody else runs operators of domain ", ops::kOwnDomain, ":",
                      LinesOf(graph, kMostNamed, is_stranded));
}

const NodeReport* PlacementReport::FindNode(std::string_view first_output) const {
  for (const GraphReport& graph : graphs_) {
    if (!graph.parent.empty()) continue;
    const auto found = std::find_if(graph.nodes.begin(), graph.nodes.end(),
                                    [&](const NodeReport& node) { return node.first_output == first_output; });
    if (found != graph.nodes.end()) return &*found;
  }
  return nullptr;
}

int PlacementReport::AddRegions(size_t count) {
  const int first = static_cast<int>(regions_.size());
  regions_.resize(regions_.size() + count);
  return first;
}

void PlacementReport::SetRegion(std::string_view first_output, RegionReport region) {
  const NodeReport* const node = FindNode(first_output);
  if (node != nullptr && node->region >= 0) regions_[static_cast<size_t>(node->region)] = std::move(region);
}

// The first where the region is, the others behind the rest: copies go by index.
void PlacementReport::ShowMembers(GraphReport& graph) const {
  for (size_t i = 0, count = graph.nodes.size(); i < count; ++i) {
    if (!graph.nodes[i].is_region) continue;
    const NodeReport* const known = FindNode(graph.nodes[i].first_output);
    if (known == nullptr || known->region < 0) continue;
    graph.nodes[i] = *known;
    for (const GraphReport& earlier : graphs_) {
      for (const NodeReport& node : earlier.nodes) {
        if (node.region == known->region && &node != known) graph.nodes.push_back(node);
      }
    }
  }
}

void PlacementReport::Add(GraphReport graph) {
  ShowMembers(graph);
  const std::string identity = IdentityOf(graph);
  const auto earlier = std::find_if(graphs_.begin(), graphs_.end(),
                                    [&](const GraphReport& other) { return IdentityOf(other) == identity; });
  if (earlier == graphs_.end()) {
    graphs_.push_back(std::move(graph));
  } else {
    *earlier = std::move(graph);
  }
}

std::vector<const GraphReport*> PlacementReport::Within(const GraphReport& main) const {
  std::set<std::string> nodes;
  const auto add_nodes = [&](const GraphReport& graph) {
    for (const NodeReport& node : graph.nodes) nodes.insert(Label(node));
  };
  add_nodes(main);
  std::vector<uint8_t> is_within(graphs_.size(), 0);
  for (bool again = true; again;) {
    again = false;
    for (size_t g = 0; g < graphs_.size(); ++g) {
      if (is_within[g] != 0 || !nodes.contains(graphs_[g].parent)) continue;
      is_within[g] = 1;
      add_nodes(graphs_[g]);
      again = true;
    }
  }
  std::vector<const GraphReport*> within;
  for (size_t g = 0; g < graphs_.size(); ++g) {
    if (is_within[g] != 0) within.push_back(&graphs_[g]);
  }
  return within;
}

void PlacementReport::ForgetInside(std::string_view node) {
  std::vector<std::string> parents = {std::string(node)};
  while (!parents.empty()) {
    const std::string parent = std::move(parents.back());
    parents.pop_back();
    std::erase_if(graphs_, [&](const GraphReport& graph) {
      if (graph.parent != parent) return false;
      for (const NodeReport& inner : graph.nodes) parents.push_back(Label(inner));
      return true;
    });
  }
}

NodeCount PlacementReport::Inside(std::string_view node) const {
  NodeCount count;
  for (const GraphReport& graph : graphs_) {
    if (graph.parent != node) continue;
    count.all += graph.nodes.size();
    count.ours += CountOf(graph, NodeHome::kOurs);
    count.elsewhere += static_cast<size_t>(std::count_if(graph.nodes.begin(), graph.nodes.end(), IsElsewhere));
  }
  return count;
}

std::string PlacementReport::ToJson(std::string_view provider, std::string_view backend,
                                    std::span<const lib::LibraryReport> libraries) const {
  std::vector<size_t> compiled;
  for (size_t i = 0; i < regions_.size(); ++i) {
    if (!regions_[i].steps.empty()) compiled.push_back(i);
  }
  const auto region_text = [&](size_t i) {
    return StrCat("{", Number("number", uint64_t{i}), ", ", FieldsOf(regions_[i]), "}");
  };
  return StrCat("{\"format\": 1, ", Field("provider", provider), ", ", Field("version", CUDAEP_VERSION), ", ",
                Field("backend", backend), ",\n", budget_ ? BudgetText(*budget_) : "",
                "\"libraries\": ", Array(libraries, LibraryText), ",\n\"graphs\": ", Array(graphs_, GraphText),
                compiled.empty() ? std::string() : StrCat(",\n\"regions\": ", Array(compiled, region_text)),
                missed_.empty() ? std::string() : StrCat(",\n\"missed\": ", Array(missed_, TextOf)), "}\n");
}

Status WriteReport(const std::string& path, std::string_view text) {
  const auto close = [](FILE* file) { std::fclose(file); };
  std::unique_ptr<FILE, decltype(close)> file(std::fopen(path.c_str(), "w"), close);
  const bool written = file != nullptr && std::fwrite(text.data(), 1, text.size(), file.get()) == text.size() &&
                       std::fclose(file.release()) == 0;
  if (written) return Status::Ok();
  return InvalidArgument("provider option placement_report: cannot write ", path, ": ", std::strerror(errno));
}

}  // namespace cudaep::graph
