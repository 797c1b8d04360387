#include "graph/pass/attention_mask.h"

#include <algorithm>

#include "graph/pass/layout.h"

namespace cudaep::graph {
namespace {

using Dims = std::vector<ir::Dim>;

// Of two that broadcast to the same scores, as far as it is stated.
Dims Joined(Dims a, Dims b) {
  if (a.size() < b.size()) std::swap(a, b);
  for (size_t i = 0; i < b.size(); ++i) {
    ir::Dim& dim = a[a.size() - b.size() + i];
    if (dim.size == 1) {
      dim = b[i];
    } else if (b[i].size != 1 && !dim.Equals(b[i])) {
      dim = {};
    }
  }
  return a;
}

class MaskMaker {
 public:
  MaskMaker(const Rewriter& rewrite, std::vector<ir::Node>& nodes) : graph_(rewrite.graph), nodes_(nodes) {}

  int OfTerms(const AttentionCore& core) const {
    int mask = -1;
    for (ScoreTerm term : core.terms) {
      using Kind = ScoreTerm::Kind;
      if (term.flat && core.split >= 0) {
        const ir::Node& split = graph_.nodes[static_cast<size_t>(core.split)];
        term.value = Make("Reshape", {term.value, split.inputs[1]}, ScoreDims(graph_, core));
        nodes_.back().since_version = split.since_version;
        nodes_.back().attributes = split.attributes;
      }
      switch (term.kind) {
        case Kind::kAdded:
          mask = mask < 0 ? term.value : Make("Add", {mask, term.value});
          break;
        case Kind::kHidden:
          mask = Make("Where", {term.value, term.lowest, mask < 0 ? ZeroLike(term.lowest) : mask});
          break;
        case Kind::kShown:
          mask = Make("Where", {term.value, mask < 0 ? ZeroLike(term.lowest) : mask, term.lowest});
          break;
        case Kind::kRaised:
          mask = Make("Max", {mask, term.lowest});
          break;
      }
    }
    return mask;
  }

  // Of a batch of all windows.
  int OfWindows(int window_mask, int mask) const {
    const ir::Value whole = graph_.value(window_mask);
    Dims dims(whole.dims->begin() + 1, whole.dims->end());
    std::vector<int64_t> target(dims.size());
    for (size_t i = 0; i < dims.size(); ++i) target[i] = dims[i].size;
    const int windows = Make("Reshape", {window_mask, AddInts(graph_, whole.name, target)}, std::move(dims));
    return mask < 0 ? windows : Make("Add", {windows, mask});
  }

 private:
  int Make(const char* op, std::vector<int> inputs) const {
    Dims dims;
    for (const int input : inputs) dims = Joined(std::move(dims), *graph_.value(input).dims);
    return Make(op, std::move(inputs), std::move(dims));
  }
  int Make(const char* op, std::vector<int> inputs, Dims dims) const {
    const ir::Value like = graph_.value(inputs.back());
    const DataType type = op == std::string_view("Reshape") ? graph_.value(inputs[0]).type : like.type;
    const int output = graph_.AddValue({.name = like.name, .type = type, .dims = std::move(dims)});
    nodes_.push_back(
        {.name = like.name, .op_type = op, .since_version = 13, .inputs = std::move(inputs), .outputs = {output}});
    return output;
  }

  int ZeroLike(int constant) const {
    const ir::Value like = graph_.value(constant);
    ops::HostTensor zero{.type = like.type, .dims = {}, .data = std::vector<std::byte>(SizeOf(like.type))};
    return graph_.AddConstant(like.name, std::move(zero));
  }

  ir::Graph& graph_;
  std::vector<ir::Node>& nodes_;
};

}  // namespace

std::vector<ir::Node> MakeMask(const Rewriter& rewrite, AttentionCore& core) {
  std::vector<ir::Node> nodes;
  const MaskMaker maker(rewrite, nodes);
  if (!core.terms.empty()) core.mask = maker.OfTerms(core);
  if (core.window_mask >= 0) core.mask = maker.OfWindows(core.window_mask, core.mask);
  return nodes;
}

}  // namespace cudaep::graph
