#include "graph/pass/rewrite.h"

#include <algorithm>

namespace cudaep::graph {

ir::Node Rewriter::Instead(int index, const char* domain, const char* op, int version) const {
  return {.name = node(index).name,
          .domain = domain,
          .op_type = op,
          .since_version = version,
          .outputs = node(index).outputs};
}

bool Rewriter::Replace(int index, ir::Node fused) const {
  if (!context_.IsSupported(graph, fused)) return false;
  for (const int member : NodesBetween(fused)) {
    fused.sources.insert(fused.sources.end(), node(member).sources.begin(), node(member).sources.end());
    taken_[static_cast<size_t>(member)] = 1;
  }
  context_.notes.push_back({fusion_, fused.sources});
  node(index) = std::move(fused);
  return true;
}

void Rewriter::Miss(int index, std::string why) const {
  context_.notes.push_back({fusion_, node(index).sources, std::move(why)});
}

std::vector<int> Rewriter::NodesBetween(const ir::Node& fused) const {
  std::vector<int> members, open = fused.outputs;
  while (!open.empty()) {
    const int value = open.back();
    open.pop_back();
    const bool is_input = std::ranges::find(fused.inputs, value) != fused.inputs.end();
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
