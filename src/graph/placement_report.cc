#include "graph/placement_report.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

namespace cudaep::graph {
namespace {

constexpr size_t kMostNamed = 20;  // an error text is read by a person; the file has all of them

const char* PlacementName(NodeHome home) {
  switch (home) {
    case NodeHome::kOurs:
      return "provider";
    case NodeHome::kShapeNode:
      return "shape";
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

std::string Quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += StrCat('\\', c);
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escaped[8];
      std::snprintf(escaped, sizeof(escaped), "\\u%04x", static_cast<unsigned>(c));
      out += escaped;
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string Field(std::string_view key, std::string_view value) { return StrCat(Quoted(key), ": ", Quoted(value)); }

// The texts of `items` as a JSON array, an item a line.
template <class Items, class Text>
std::string Array(const Items& items, Text text) {
  std::string out = "[";
  for (const auto& item : items) out += StrCat(out.size() == 1 ? "\n" : ",\n", text(item));
  return out + "]";
}

std::string Number(std::string_view key, uint64_t value) { return StrCat(Quoted(key), ": ", value); }

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
                ", \"since_version\": ", node.since_version, ", ", Field("placement", PlacementName(node.home)), ", ",
                Field("reason", node.reason), node.cost ? CostText(*node.cost) : "", "}");
}

std::string LibraryText(const lib::LibraryReport& library) {
  return StrCat("{", Field("name", library.name), ", \"found\": ", library.found, ", ", Field("path", library.path),
                ", ", Field("version", library.version), ", ", Field("status", library.status), "}");
}

std::string GraphText(const GraphReport& graph) {
  return StrCat("{", Field("name", graph.name), ", ", Field("parent", graph.parent),
                ", \"nodes\": ", Array(graph.nodes, NodeText), "}");
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
  return StrCat(CountOf(graph, NodeHome::kOurs), " of ", graph.nodes.size(), " nodes, ",
                CountOf(graph, NodeHome::kShapeNode), " shape nodes left to the CPU",
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
                      graph.nodes.size() - CountOf(graph, NodeHome::kShapeNode), " compute nodes",
                      graph.parent.empty() ? "" : StrCat(" inside ", graph.parent), " are not on ", provider, ":",
                      LinesOf(graph, kMostNamed, IsElsewhere));
}

void PlacementReport::Add(GraphReport graph) {
  const std::string identity = IdentityOf(graph);
  const auto earlier = std::find_if(graphs_.begin(), graphs_.end(),
                                    [&](const GraphReport& other) { return IdentityOf(other) == identity; });
  if (earlier == graphs_.end()) {
    graphs_.push_back(std::move(graph));
  } else {
    *earlier = std::move(graph);
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
  return StrCat("{\"format\": 1, ", Field("provider", provider), ", ", Field("version", CUDAEP_VERSION), ", ",
                Field("backend", backend), ",\n", budget_ ? BudgetText(*budget_) : "",
                "\"libraries\": ", Array(libraries, LibraryText), ",\n\"graphs\": ", Array(graphs_, GraphText), "}\n");
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
