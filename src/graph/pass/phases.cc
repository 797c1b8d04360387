#include "graph/pass/phases.h"

#include <algorithm>
#include <numeric>

#include "graph/pass/layout.h"
#include "graph/pass/strided_view.h"
#include "ops/movement/slice_ranges.h"

namespace cudaep::graph {
namespace {

// Where a part begins along each axis, and how far apart its positions are.
struct Phase {
  int whole = -1;
  std::vector<int64_t> starts, steps;
};

struct Phases {
  int whole = -1;
  std::vector<int64_t> steps;  // of each axis
  std::vector<size_t> order;   // of the axes in steps: the first one's start changes last
};

class PhaseMatch {
 public:
  PhaseMatch(const ir::Graph& graph, const Matcher& match) : graph_(graph), match_(match) {}

  std::optional<Phases> Match(const ir::Node& concat) const {
    const int64_t count = static_cast<int64_t>(concat.inputs.size());
    if (concat.on_host || !concat.Is("Concat") || count < 2) return std::nullopt;
    std::vector<Phase> parts;
    for (const int input : concat.inputs) {
      const std::optional<Phase> part = PhaseOf(input);
      if (!part || (!parts.empty() && (part->whole != parts[0].whole || part->steps != parts[0].steps))) {
        return std::nullopt;
      }
      parts.push_back(*part);
    }
    Phases phases{.whole = parts[0].whole, .steps = parts[0].steps};
    const auto rank = static_cast<int64_t>(phases.steps.size());
    const int64_t axis = IntAttribute(concat, "axis", 0), at = axis < 0 ? axis + rank : axis;
    if (at < 0 || at >= rank || phases.steps[static_cast<size_t>(at)] != 1) return std::nullopt;
    int64_t all = 1;
    for (size_t d = 0; d < phases.steps.size(); ++d) {
      if (phases.steps[d] == 1) continue;
      if (SizeOf(phases.whole, d) % phases.steps[d] != 0) return std::nullopt;
      phases.order.push_back(d);
      all *= phases.steps[d];
    }
    if (all != count) return std::nullopt;
    do {
      if (IsInOrder(phases, parts)) return phases;
    } while (std::next_permutation(phases.order.begin(), phases.order.end()));
    return std::nullopt;
  }

 private:
  int64_t SizeOf(int value, size_t axis) const { return graph_.value(value).dims->at(axis).size; }

  // Through Slices one after the other, as far as they go in steps or take all.
  std::optional<Phase> PhaseOf(int value) const {
    Phase phase{.whole = value};
    const auto& dims = graph_.value(value).dims;
    if (!dims) return std::nullopt;
    phase.starts.assign(dims->size(), 0), phase.steps.assign(dims->size(), 1);
    for (const ir::Node* slice = match_.Maker(value, "Slice"); slice != nullptr;) {
      if (!graph_.value(slice->inputs[0]).dims || graph_.value(slice->inputs[0]).is_constant()) break;
      Phase next = phase;
      if (!Through(*slice, next)) break;
      phase = std::move(next);
      slice = match_.Maker(phase.whole, "Slice");
    }
    const bool steps = std::ranges::any_of(phase.steps, [](int64_t step) { return step > 1; });
    return steps ? std::optional(phase) : std::nullopt;
  }

  // What the part is of the slice's input.
  bool Through(const ir::Node& slice, Phase& phase) const {
    const auto starts = match_.IntsOf(slice, "starts", 1), ends = match_.IntsOf(slice, "ends", 2);
    auto axes = match_.IntsOf(slice, "axes", 3), steps = match_.IntsOf(slice, "steps", 4);
    const auto given = [&](size_t input) { return slice.inputs.size() > input && slice.inputs[input] >= 0; };
    if (!starts || !ends || (!axes && given(3)) || (!steps && given(4))) return false;
    if (!axes) {
      axes.emplace(starts->size());
      std::iota(axes->begin(), axes->end(), 0);
    }
    if (!steps) steps = std::vector<int64_t>(starts->size(), 1);
    const auto rank = static_cast<int64_t>(phase.starts.size());
    if (ends->size() != starts->size() || axes->size() != starts->size() || steps->size() != starts->size()) {
      return false;
    }
    for (size_t i = 0; i < axes->size(); ++i) {
      const int64_t axis = (*axes)[i] < 0 ? (*axes)[i] + rank : (*axes)[i], step = (*steps)[i];
      if (axis < 0 || axis >= rank || step < 1) return false;
      const auto d = static_cast<size_t>(axis);
      const int64_t size = SizeOf(slice.inputs[0], d);
      if (size <= 0) return false;
      const ops::SliceRange range = ops::SliceRangeOf(size, (*starts)[i], (*ends)[i], step);
      // One of each `step` positions, whichever comes first.
      if (range.start >= step || size % step != 0 || range.count != size / step) return false;
      if (step > 1 && phase.steps[d] > 1) return false;
      phase.starts[d] = step > 1 ? range.start : phase.starts[d];
      phase.steps[d] = std::max(phase.steps[d], step);
    }
    phase.whole = slice.inputs[0];
    return true;
  }

  static bool IsInOrder(const Phases& phases, const std::vector<Phase>& parts) {
    for (size_t i = 0; i < parts.size(); ++i) {
      int64_t rest = static_cast<int64_t>(i);
      for (size_t k = phases.order.size(); k-- > 0;) {
        const size_t d = phases.order[k];
        if (parts[i].starts[d] != rest % phases.steps[d]) return false;
        rest /= phases.steps[d];
      }
    }
    return true;
  }

  const ir::Graph& graph_;
  const Matcher& match_;
};

}  // namespace

void JoinPhases(const Rewriter& rewrite, int index) {
  ir::Graph& graph = rewrite.graph;
  const ir::Node& concat = rewrite.node(index);
  const auto phases = PhaseMatch(graph, rewrite.match).Match(concat);
  if (!phases || !graph.value(concat.outputs[0]).dims) return;
  const ir::Value whole = graph.value(phases->whole);
  const std::vector<ir::Dim> joined = *graph.value(concat.outputs[0]).dims;
  std::vector<ir::Dim> apart;
  std::vector<int64_t> place(whole.dims->size()), perm;  // of each axis among those that are apart
  for (size_t d = 0; d < place.size(); ++d) {
    place[d] = static_cast<int64_t>(apart.size());
    const int64_t step = phases->steps[d];
    if (step == 1) {
      apart.push_back((*whole.dims)[d]);
    } else {
      apart.insert(apart.end(), {{.size = (*whole.dims)[d].size / step}, {.size = step}});
    }
  }
  const int64_t axis = IntAttribute(concat, "axis", 0);
  const auto at = static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(place.size()) : axis);
  for (size_t d = 0; d < place.size(); ++d) {
    if (d == at) {
      for (const size_t stepped : phases->order) perm.push_back(place[stepped] + 1);
    }
    perm.push_back(place[d]);
  }
  const std::vector<ir::Dim> turned = Ordered(apart, perm);
  const auto to_apart = ReshapeTarget(*whole.dims, apart), to_joined = ReshapeTarget(turned, joined);
  if (!to_apart || !to_joined) return rewrite.Miss(index, "more than one dimension is not stated");
  std::vector<ir::Node> nodes(2);
  const auto fill = [&](ir::Node& node, const char* op, std::vector<int> inputs) {
    node.name = whole.name, node.op_type = op, node.since_version = 13, node.inputs = std::move(inputs);
  };
  const auto value = [&](const std::vector<ir::Dim>& dims) {
    return graph.AddValue({.name = whole.name, .type = whole.type, .dims = dims});
  };
  fill(nodes[0], "Reshape", {phases->whole, AddInts(graph, whole.name, *to_apart)});
  nodes[0].outputs = {value(apart)};
  fill(nodes[1], "Transpose", {nodes[0].outputs[0]});
  nodes[1].attributes = {{"perm", perm}};
  nodes[1].outputs = {value(turned)};
  ir::Node last = rewrite.Instead(index, "", "Reshape", 13);
  last.inputs = {nodes[1].outputs[0], AddInts(graph, whole.name, *to_joined)};
  rewrite.Replace(index, std::move(last), std::move(nodes));
}

}  // namespace cudaep::graph
