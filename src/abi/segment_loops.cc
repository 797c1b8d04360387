#include "abi/segment_loops.h"

#include <algorithm>
#include <set>

#include "abi/api_version.h"
#include "abi/loop_body.h"
#include "abi/node_info.h"
#include "core/strings.h"
#include "ops/reduce/segment_reduce.h"

namespace cudaep::abi {
namespace {

size_t Index(int index) { return static_cast<size_t>(index); }

using Readers = SegmentLoops::Readers;

bool IsOf(const GraphView& view, int node, std::string_view op) {
  const graph::NodeReport& report = view.report.nodes[Index(node)];
  return report.op_type == op && report.domain.empty() && report.home != graph::NodeHome::kOtherTaken;
}

Readers ReadersOf(const GraphView& view) {
  Readers readers(view.placement.values.size());
  for (size_t n = 0; n < view.nodes.size(); ++n) {
    const auto add = [&](int value) {
      if (value >= 0) readers[Index(value)].push_back(static_cast<int>(n));
    };
    for (const graph::PlacementUse& use : view.placement.nodes[n].inputs) add(use.value);
    if (!view.placement.nodes[n].runs_graphs) continue;  // otherwise they are among the inputs
    for (const int value : view.regions[n].read_inside) add(value);
  }
  return readers;
}

bool IsUnread(const GraphView& view, const Readers& readers, int value) {
  return value < 0 || (readers[Index(value)].empty() && !view.placement.values[Index(value)].graph_output);
}

}  // namespace

bool SegmentLoops::Claim(const Settings& settings, GraphView* view) {
  claimed_.clear();
  before_.clear();
  missed_.clear();
  const Readers readers = ReadersOf(*view);
  for (int n = 0; n < static_cast<int>(view->nodes.size()); ++n) {
    if (!IsOf(*view, n, "Loop")) continue;
    Result<graph::LoopBody> body = ReadLoopBody(view->nodes[Index(n)], settings);
    if (!body.ok()) continue;  // what cannot be read is none
    graph::SegmentMatch match = graph::MatchSegments(*body);
    Found found{.loop = n, .gives_sequence = match.loop && match.loop->gives_sequence, .inputs = {}};
    if (match.loop) {
      for (const int value : match.loop->inputs()) {
        found.inputs.push_back(value < 0 ? "" : body->graph.value(value).name);
      }
      match.missed = FindEnds(settings, *view, readers, &found);
    }
    if (!match.missed.empty()) {
      Miss(*view, n, std::move(match.missed));
    } else if (match.loop) {
      claimed_.push_back(std::move(found));
    }
  }
  // One that gives a sequence begins with an empty one, which may be that of others of its kind alone.
  const auto is_claimed = [&](int node) { return std::ranges::find(claimed_, node, &Found::loop) != claimed_.end(); };
  const auto is_shared = [&](const Found& found) {
    if (!found.gives_sequence) return false;
    const int sequence = view->placement.nodes[Index(found.begin)].outputs[0];
    return !std::ranges::all_of(readers[Index(sequence)], is_claimed);
  };
  for (auto at = claimed_.begin(); (at = std::ranges::find_if(claimed_, is_shared)) != claimed_.end();) {
    Miss(*view, at->loop, "others read the empty sequence that it begins with");
    claimed_.erase(at);
  }
  for (const Found& found : claimed_) ClaimLoop(found, view);
  return !claimed_.empty();
}

void SegmentLoops::Miss(const GraphView& view, int loop, std::string why) {
  missed_.push_back({Fusion::kEmbeddingBag, {graph::Label(view.report.nodes[Index(loop)])}, std::move(why)});
}

// What is wrong around the Loop; empty: nothing.
std::string SegmentLoops::FindEnds(const Settings& settings, const GraphView& view, const Readers& readers,
                                   Found* found) const {
  if (!found->gives_sequence) return {};
  const graph::PlacementNode& loop = view.placement.nodes[Index(found->loop)];
  const int given = loop.inputs[3].value, made = loop.outputs[1];
  found->begin = given < 0 ? -1 : view.placement.values[Index(given)].producer;
  if (found->begin < 0 || !IsOf(view, found->begin, "SequenceEmpty")) return "its sequence does not begin empty";
  if (!IsUnread(view, readers, loop.outputs[0])) return "its counter is read behind it";
  const bool leaves = made < 0 || view.placement.values[Index(made)].graph_output;
  if (leaves || readers[Index(made)].size() != 1) return "its sequence is not read by one node";
  found->end = readers[Index(made)].front();
  NodeInfo info(view.nodes[Index(found->end)], settings);
  if (!info.Read().ok() || !IsOf(view, found->end, "ConcatFromSequence") || info.IntOr("axis", -1) != 0 ||
      info.IntOr("new_axis", 0) != 0) {
    return "its sequence does not become rows of one tensor";
  }
  return {};
}

void SegmentLoops::ClaimNode(int node, GraphView* view) {
  graph::PlacementNode& placed = view->placement.nodes[Index(node)];
  graph::NodeReport& report = view->report.nodes[Index(node)];
  before_.try_emplace(node, Before{placed, view->regions[Index(node)], report});
  placed.claimed = true;
  placed.falls_to_cpu = false;
  report.home = graph::NodeHome::kOurs;
  report.reason.clear();
}

void SegmentLoops::ClaimLoop(const Found& found, GraphView* view) {
  for (const int node : {found.loop, found.end}) {
    if (node < 0) continue;
    ClaimNode(node, view);
    view->regions[Index(node)] = {.on_device = true};
  }
  if (found.begin >= 0) {
    ClaimNode(found.begin, view);
    view->regions[Index(found.begin)] = {.on_host = true};
  }
  graph::PlacementNode& loop = view->placement.nodes[Index(found.loop)];
  loop.runs_graphs = true;  // no shape node
  const auto reads_on_device = [&](int value) {
    const std::string& name = view->placement.values[Index(value)].name;
    return std::ranges::find(found.inputs, name) != found.inputs.end() && name != found.inputs[ops::kSegmentCount] &&
           name != found.inputs[ops::kSegmentCondition];
  };
  for (graph::PlacementUse& use : loop.inputs) {
    if (use.value >= 0) use.host_input = !reads_on_device(use.value);
  }
  for (const int value : before_.at(found.loop).facts.read_inside) {
    const auto is_it = [&](const graph::PlacementUse& use) { return use.value == value; };
    if (std::ranges::any_of(loop.inputs, is_it)) continue;
    loop.inputs.push_back({value, !reads_on_device(value) && !view->placement.values[Index(value)].constant});
  }
}

bool SegmentLoops::GiveBack(const std::vector<RegionClaims::Region>& regions, GraphView* view) {
  std::map<int, const RegionClaims::Region*> region_of;
  for (const RegionClaims::Region& region : regions) {
    for (const int node : region.nodes) region_of[node] = &region;
  }
  std::set<int> gone;  // Loops, and empty sequences that they begin with
  std::map<int, const char*> why;
  for (const Found& found : claimed_) {
    const RegionClaims::Region* const region = region_of[found.loop];
    const bool is_whole = region != nullptr && (!found.gives_sequence ||
                                                (region_of[found.begin] == region && region_of[found.end] == region));
    if (is_whole && IsFed(found, region->nodes, *view)) continue;
    gone.insert({found.loop, found.begin});
    why[found.loop] = is_whole ? "nobody else reads what it reads, which this ONNX Runtime does not give a region"
                               : "no region takes it: its iterations are counted from data, or it stands alone";
  }
  gone.erase(-1);
  return std::erase_if(claimed_, [&](const Found& found) {
           if (!gone.contains(found.loop) && !gone.contains(found.begin)) return false;
           const char* const own = why[found.loop];
           Miss(*view, found.loop,
                own != nullptr ? own : "another begins with the same sequence, and no region takes it");
           for (const int node : {found.loop, found.begin, found.end}) Restore(node, view);
           return true;
         }) != 0;
}

// Whether the region makes what the Loop's body reads, or another node of it reads that too.
bool SegmentLoops::IsFed(const Found& found, const std::vector<int>& region, const GraphView& view) const {
  if (Host().version >= kApiInnerReads) return true;
  const auto is_here = [&](int node) { return std::ranges::find(region, node) != region.end(); };
  return std::ranges::all_of(before_.at(found.loop).facts.read_inside, [&](int value) {
    const graph::PlacementValue& read = view.placement.values[Index(value)];
    if (read.constant || (read.producer >= 0 && is_here(read.producer))) return true;
    return std::ranges::any_of(region, [&](int node) {
      const bool is_loop = view.placement.nodes[Index(node)].runs_graphs;
      return !is_loop &&
             std::ranges::find(view.placement.nodes[Index(node)].inputs, value, &graph::PlacementUse::value) !=
                 view.placement.nodes[Index(node)].inputs.end();
    });
  });
}

void SegmentLoops::Restore(int node, GraphView* view) {
  const auto before = before_.find(node);
  if (before == before_.end()) return;
  view->placement.nodes[Index(node)] = std::move(before->second.placed);
  view->regions[Index(node)] = std::move(before->second.facts);
  view->report.nodes[Index(node)] = std::move(before->second.report);
  before_.erase(before);
}

void SegmentLoops::Report(const GraphView& view, graph::PlacementReport* report) const {
  for (const Found& found : claimed_) report->ForgetInside(graph::Label(view.report.nodes[Index(found.loop)]));
  report->SetMissed(missed_);
}

}  // namespace cudaep::abi
