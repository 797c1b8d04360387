#include "graph/region_report.h"

#include <algorithm>
#include <iterator>

#include "core/strings.h"
#include "graph/report_text.h"

namespace cudaep::graph {
namespace {

std::string Sources(const std::vector<std::string>& sources) {
  return StrCat("\"nodes\": ", Listed(sources, [](const std::string& source) { return Quoted(source); }));
}

std::string StepText(const RegionReport::Step& step) {
  return StrCat("{", Field("op_type", step.op_type), ", ", Field("domain", step.domain),
                ", \"on_host\": ", step.on_host ? "true" : "false", ", \"once\": ", step.once ? "true" : "false", ", ",
                Sources(step.sources), "}");
}

std::string Notes(const RegionReport& region, bool missed) {
  std::vector<FusionNote> notes;
  std::ranges::copy_if(region.notes, std::back_inserter(notes),
                       [&](const FusionNote& note) { return note.missed.empty() != missed; });
  return Array(notes, TextOf);
}

}  // namespace

std::string TextOf(const FusionNote& note) {
  const std::string why = note.missed.empty() ? std::string() : StrCat(", ", Field("reason", note.missed));
  return StrCat("{", Field("name", FusionName(note.fusion)), ", ", Sources(note.sources), why, "}");
}

RegionReport ReportOf(const ir::Graph& region, std::vector<FusionNote> notes) {
  RegionReport report{.steps = {}, .notes = std::move(notes)};
  for (const ir::Node& node : region.nodes) {
    report.steps.push_back({node.op_type, node.domain, node.on_host, node.sources, node.once});
  }
  return report;
}

std::string FieldsOf(const RegionReport& region) {
  return StrCat("\"steps\": ", Array(region.steps, StepText), ",\n\"rewritten\": ", Notes(region, false),
                ",\n\"missed\": ", Notes(region, true));
}

}  // namespace cudaep::graph
