#include "graph/pass/rewrite.h"

#include <algorithm>
#include <iterator>

namespace cudaep::graph {

ir::Node Rewriter::Instead(int index, const char* domain, const char* op, int version) const {
  return {.name = node(index).name,
          .domain = domain,
          .op_type = op,
          .since_version = version,
          .outputs = node(index).outputs};
}

bool Rewriter::Replace(int index, ir::Node fused, std::vector<ir::Node> before) const {
  std::vector<int> inputs = fused.inputs;
  for (const ir::Node& first : before) {
    if (!context_.IsSupported(graph, first)) return false;
    inputs.insert(inputs.end(), first.inputs.begin(), first.inputs.end());
    std::erase_if(inputs, [&](int value) { return std::ranges::find(first.outputs, value) != first.outputs.end(); });
  }
  if (!context_.IsSupported(graph, fused)) return false;
  std::vector<const std::vector<std::string>*> known;  // nodes that one rewriting made have the same
  for (const int member : NodesBetween(inputs, fused.outputs)) {
    const std::vector<std::string>& sources = node(member).sources;
    const bool again = sources.size() > 1 && std::ranges::any_of(known, [&](const auto* k) { return *k == sources; });
    if (!again) fused.sources.insert(fused.sources.end(), sources.begin(), sources.end());
    known.push_back(&sources);
    taken_[static_cast<size_t>(member)] = 1;
  }
  context_.notes.push_back({fusion_, fused.sources});
  for (ir::Node& first : before) first.sources = fused.sources;
  if (!before.empty()) before_[index] = std::move(before);
  node(index) = std::move(fused);
  return true;
}

void Rewriter::Bypass(int index, int value) const {
  Redirect(index, value);
  context_.notes.push_back({fusion_, node(index).sources});
}

void Rewriter::Redirect(int index, int value) const {
  const int made = node(index).outputs[0];
  for (ir::Node& reader : graph.nodes) std::ranges::replace(reader.inputs, made, value);
  taken_[static_cast<size_t>(index)] = 1;
}

void Rewriter::PlaceNodesInFront() const {
  std::vector<ir::Node> all;
  for (int n = 0; n < node_count(); ++n) {
    if (const auto found = before_.find(n); found != before_.end())
      std::ranges::move(found->second, std::back_inserter(all));
    all.push_back(std::move(node(n)));
  }
  graph.nodes = std::move(all);
}

void Rewriter::Miss(int index, std::string why) const {
  context_.notes.push_back({fusion_, node(index).sources, std::move(why)});
}

std::vector<int> Rewriter::NodesBetween(const std::vector<int>& inputs, const std::vector<int>& outputs) const {
  std::vector<int> members, open = outputs;
  while (!open.empty()) {
    const int value = open.back();
    open.pop_back();
    const bool is_input = std::ranges::find(inputs, value) != inputs.end();
    if (is_input || match.Maker(value) == nullptr) continue;
    const int maker = match.MakerIndex(value);
    if (std::ranges::find(members, maker) != members.end()) continue;
    members.push_back(maker);
    open.insert(open.end(), node(maker).inputs.begin(), node(maker).inputs.end());
  }
  std::ranges::sort(members);
  return members;
}

}  // namespace cudaep::graph
