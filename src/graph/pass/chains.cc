#include "graph/pass/chains.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "graph/pass/chain_nodes.h"
#include "graph/pass/code_tables.h"
#include "graph/pass/product_codes.h"
#include "graph/pass/qdq_codes.h"
#include "graph/pass/quantization.h"
#include "graph/pass/rewrite.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

using ops::Chain;
using ops::ChainTerm;

// More dimensions are not known to fit the kernel.
constexpr size_t kMostDims = kernels::kMaxBroadcastRank;

// Terms of several nodes as those of one chain.
class Writer {
 public:
  Writer(const ir::Graph& graph, std::span<const int> members) {
    // Inputs come before terms, so that all have to be known first.
    for (const int member : members) nodes_.push_back(*TermsOf(graph, graph.nodes[static_cast<size_t>(member)]));
    for (size_t i = 0; i < members.size(); ++i) {
      for (const NodeTerm& term : nodes_[i]) {
        for (const int operand : term.operands) AddInput(operand);
      }
      made_.push_back({graph.nodes[static_cast<size_t>(members[i])].outputs[0], -1});
    }
    chain.inputs = static_cast<int>(inputs.size());
    for (size_t i = 0; i < nodes_.size(); ++i) {
      for (const NodeTerm& term : nodes_[i]) Append(term);
      made_[i].second = Last();
    }
  }

  int TermOf(int value) const { return std::ranges::find(made_, value, &std::pair<int, int>::first)->second; }

  std::vector<int> inputs;  // values of the graph
  Chain chain;

 private:
  int Last() const { return chain.inputs + static_cast<int>(chain.terms.size()) - 1; }
  void AddInput(int value) {
    const bool is_made = std::ranges::find(made_, value, &std::pair<int, int>::first) != made_.end();
    if (value >= 0 && !is_made && std::ranges::find(inputs, value) == inputs.end()) inputs.push_back(value);
  }
  int ValueOf(int operand) const {
    if (operand == NodeTerm::kBefore) return Last();
    if (operand < 0) return ChainTerm::kNumber;
    const auto input = std::ranges::find(inputs, operand);
    return input == inputs.end() ? TermOf(operand) : static_cast<int>(input - inputs.begin());
  }
  void Append(const NodeTerm& term) {
    ChainTerm made{.function = ops::FindChainFunction(term.function), .operands = {}, .numbers = term.numbers};
    std::ranges::transform(term.operands, made.operands.begin(), [&](int operand) { return ValueOf(operand); });
    chain.terms.push_back(made);
  }

  std::vector<std::vector<NodeTerm>> nodes_;
  std::vector<std::pair<int, int>> made_;  // values and their last terms
};

// Some take no step of the kernel's; looking at a group again for each further node takes as long as it is large.
constexpr size_t kMostMembers = 2 * kernels::kMaxChainSteps;

struct Group {
  std::vector<int> members;  // nodes, in order
};

const ir::Node& NodeAt(const ir::Graph& graph, int n) { return graph.nodes[static_cast<size_t>(n)]; }

bool MayJoin(const ir::Graph& graph, int n) {
  if (!TermsOf(graph, NodeAt(graph, n))) return false;
  const auto& dims = graph.value(NodeAt(graph, n).outputs[0]).dims;
  return dims && dims->size() <= kMostDims;
}

// Codes that others than DequantizeLinear read leave a chain in any case; who adds numbers up reads them in an eighth
// of the bytes that the numbers would be written and read with.
bool BelongsToReader(const ir::Graph& graph, const ir::Uses& uses, int n) {
  const auto linear = QuantizationOf(graph, NodeAt(graph, n), "DequantizeLinear");
  if (!linear || !linear->is_uniform() || graph.value(linear->real).output >= 0) return false;
  const auto& numbers = uses.readers(linear->real);
  const bool leave = std::ranges::any_of(uses.readers(linear->codes), [&](const ir::Uses::Use& use) {
    return !QuantizationOf(graph, NodeAt(graph, use.node), "DequantizeLinear");
  });
  return leave && !numbers.empty() && std::ranges::all_of(numbers, [&](const ir::Uses::Use& use) {
           return MayJoin(graph, use.node) && graph.SameDims(linear->real, NodeAt(graph, use.node).outputs[0]);
         });
}

// Each reader gets a node of its own, so that none writes the numbers for another. Of those that join no chain
// ShareNumbers() makes one again.
void CopyForReaders(ir::Graph& graph) {
  const ir::Uses uses(graph);
  std::vector<ir::Node> nodes;
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n) {
    nodes.push_back(NodeAt(graph, n));
    if (!BelongsToReader(graph, uses, n)) continue;
    const int real = nodes.back().outputs[0];
    int reader = uses.readers(real)[0].node;
    for (const ir::Uses::Use& use : uses.readers(real)) {  // in order of nodes
      if (use.node != reader) {
        nodes.push_back(nodes.back());
        nodes.back().outputs = {graph.AddValue(graph.value(real))};
      }
      reader = use.node;
      graph.nodes[static_cast<size_t>(reader)].inputs[static_cast<size_t>(use.input)] = nodes.back().outputs[0];
    }
  }
  graph.nodes = std::move(nodes);
}

// Of each node whether a whole number is cut off its result, or what nodes that move it or may join a chain make of
// that: a place in a table, say. Those of 16 bits stay single then: a chain rounds less often, and a little below a
// whole number is cut off to the one before. (Passes before this one round as rarely as ever.)
std::vector<bool> LeadToWholeNumbers(const ir::Graph& graph, const ir::Uses& uses) {
  constexpr std::string_view kMoves[] = {"Concat", "Expand",  "Flatten",   "Gather",   "Reshape",
                                         "Slice",  "Squeeze", "Transpose", "Unsqueeze"};
  std::vector<bool> lead(graph.nodes.size(), false);
  for (int n = static_cast<int>(lead.size()); n-- > 0;) {
    const ir::Node& node = NodeAt(graph, n);
    const bool moves = std::ranges::find(kMoves, node.op_type) != std::end(kMoves);
    if ((!moves && !MayJoin(graph, n)) || node.outputs[0] < 0) continue;
    const bool is_float = kFloatTypes.Contains(graph.value(node.outputs[0]).type);
    lead[static_cast<size_t>(n)] = std::ranges::any_of(uses.readers(node.outputs[0]), [&](const ir::Uses::Use& use) {
      const ir::Node& reader = NodeAt(graph, use.node);
      return lead[static_cast<size_t>(use.node)] || (is_float && (reader.Is("Cast") || reader.Is("CastLike")) &&
                                                     kIntTypes.Contains(graph.value(reader.outputs[0]).type));
    });
  }
  return lead;
}

class Fuser {
 public:
  Fuser(const Rewriter& rewrite, NodeRemoval& gone)
      : rewrite_(rewrite), graph_(rewrite.graph), gone_(gone), group_of_(rewrite.graph.nodes.size(), -1) {}

  void Run() {
    const std::vector<bool> lead = LeadToWholeNumbers(graph_, rewrite_.match.uses());
    for (int n = 0; n < rewrite_.node_count(); ++n) {
      const bool rounds = lead[Index(n)] && kFloat16Types.Contains(graph_.value(ResultOf(n)).type);
      if (!rounds && MayJoin(graph_, n)) Place(n);
    }
    for (const Group& group : groups_) {
      if (group.members.size() > 1) Fuse(group);
    }
  }

 private:
  static size_t Index(int value) { return static_cast<size_t>(value); }
  int ResultOf(int node) const { return rewrite_.node(node).outputs[0]; }

  // Joins the node with as many of the groups that it reads as may be, or begins one.
  void Place(int n) {
    std::vector<int> members = {n}, joined;
    for (const int input : rewrite_.node(n).inputs) {
      const int maker = input < 0 || graph_.value(input).is_constant() ? -1 : rewrite_.match.MakerIndex(input);
      const int group = maker < 0 || BelongsToReader(graph_, rewrite_.match.uses(), n) ? -1 : group_of_[Index(maker)];
      if (group < 0 || std::ranges::find(joined, group) != joined.end()) continue;
      if (!graph_.SameDims(input, ResultOf(n))) continue;
      std::vector<int> both = members;
      both.insert(both.end(), groups_[Index(group)].members.begin(), groups_[Index(group)].members.end());
      std::ranges::sort(both);
      if (!MayBeOne(both)) continue;
      members = std::move(both);
      joined.push_back(group);
    }
    for (const int group : joined) groups_[Index(group)].members.clear();
    for (const int member : members) group_of_[Index(member)] = static_cast<int>(groups_.size());
    groups_.push_back({std::move(members)});
  }

  // Nodes in order. Nobody else may read one before the last is done.
  bool MayBeOne(const std::vector<int>& members) const {
    if (members.size() > kMostMembers) return false;
    for (const int member : members) {
      for (const ir::Uses::Use& use : rewrite_.match.uses().readers(ResultOf(member))) {
        if (use.node < members.back() && !std::ranges::binary_search(members, use.node)) return false;
      }
    }
    const Writer writer = Write(members);
    return writer.inputs.size() <= kernels::kMaxChainInputs &&
           writer.chain.results.size() <= kernels::kMaxChainOutputs && ops::CompileChain(writer.chain, false).ok();
  }

  Writer Write(const std::vector<int>& members) const {
    Writer writer(graph_, members);
    for (size_t i = members.size(); i-- > 0;) {
      if (IsResult(members, members[i])) writer.chain.results.push_back(writer.TermOf(ResultOf(members[i])));
    }
    return writer;
  }

  bool IsResult(const std::vector<int>& members, int member) const {
    const auto& readers = rewrite_.match.uses().readers(ResultOf(member));
    return member == members.back() || graph_.value(ResultOf(member)).output >= 0 ||
           std::ranges::any_of(
               readers, [&](const ir::Uses::Use& use) { return !std::ranges::binary_search(members, use.node); });
  }

  void Fuse(const Group& group) {
    const int last = group.members.back();
    const Writer writer = Write(group.members);
    ir::Node fused = rewrite_.Instead(last, ops::kFusedDomain, "Elementwise", 1);
    fused.inputs = writer.inputs;
    fused.outputs.clear();
    for (size_t i = group.members.size(); i-- > 0;) {
      if (IsResult(group.members, group.members[i])) fused.outputs.push_back(ResultOf(group.members[i]));
    }
    std::vector<std::string> functions;
    std::vector<int64_t> operands;
    std::vector<float> numbers;
    for (const ChainTerm& term : writer.chain.terms) {
      functions.emplace_back(term.function->name);
      operands.insert(operands.end(), term.operands.begin(), term.operands.end());
      numbers.insert(numbers.end(), term.numbers.begin(), term.numbers.end());
    }
    fused.attributes = {
        {"functions", std::move(functions)},
        {"operands", std::move(operands)},
        {"numbers", std::move(numbers)},
        {"results", std::vector<int64_t>(writer.chain.results.begin(), writer.chain.results.end())},
    };
    if (!rewrite_.Replace(last, std::move(fused))) return rewrite_.Miss(last, "no kernel takes the chain");
    for (const int member : group.members) {
      if (member != last) gone_.Mark(member);
    }
  }

  const Rewriter& rewrite_;
  const ir::Graph& graph_;
  NodeRemoval& gone_;
  std::vector<Group> groups_;
  std::vector<int> group_of_;  // of a node; -1: none
};

// Who asks for the dimensions of a value is told those of what it was computed from, which stays when the value goes.
void AskBefore(ir::Graph& graph) {
  const ir::Uses uses(graph);
  for (ir::Node& node : graph.nodes) {
    if (!node.Is("Shape")) continue;
    for (int value = node.inputs[0]; value >= 0;) {
      node.inputs[0] = value;
      const int maker = graph.value(value).is_constant() ? -1 : uses.producer(value);
      if (maker < 0 || !TermsOf(graph, graph.nodes[static_cast<size_t>(maker)])) break;
      const auto& operands = graph.nodes[static_cast<size_t>(maker)].inputs;
      const auto same =
          std::ranges::find_if(operands, [&](int operand) { return operand >= 0 && graph.SameDims(operand, value); });
      value = same == operands.end() ? -1 : *same;
    }
  }
}

// Chains of inputs alone that several nodes read, as masks are, come first: between two kernels that hand over to each
// other each would hold up the second's weights.
void BeginWithMasks(ir::Graph& graph) {
  constexpr std::string_view kMoves[] = {"Reshape", "Squeeze", "Unsqueeze"};
  const ir::Uses uses(graph);
  std::vector<bool> is_early(graph.nodes.size(), false), goes(graph.nodes.size(), false);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const ir::Node& node = graph.nodes[n];
    const bool moves = std::ranges::find(kMoves, node.op_type) != std::end(kMoves);
    const bool is_chain = node.Is("Elementwise", ops::kFusedDomain);
    is_early[n] = !node.on_host && (moves || is_chain) && std::ranges::all_of(node.inputs, [&](int input) {
      const int maker = input < 0 || graph.value(input).is_constant() ? -1 : uses.producer(input);
      return maker < 0 || is_early[static_cast<size_t>(maker)];
    });
    if (!is_early[n] || !is_chain || uses.readers(node.outputs[0]).size() < 2) continue;
    std::vector<int> open{static_cast<int>(n)};
    while (!open.empty()) {
      const int at = open.back();
      open.pop_back();
      goes[static_cast<size_t>(at)] = true;
      for (const int input : NodeAt(graph, at).inputs) {
        if (input >= 0 && !graph.value(input).is_constant() && uses.producer(input) >= 0) {
          open.push_back(uses.producer(input));
        }
      }
    }
  }
  std::vector<ir::Node> nodes, rest;
  for (size_t n = 0; n < graph.nodes.size(); ++n) (goes[n] ? nodes : rest).push_back(std::move(graph.nodes[n]));
  std::ranges::move(rest, std::back_inserter(nodes));
  graph.nodes = std::move(nodes);
}

}  // namespace

void FuseChains(ir::Graph& graph, const PassContext& context) {
  LookUpCodes(graph, context);
  FinishProducts(graph, context);
  AskBefore(graph);
  CopyForReaders(graph);
  const Rewriter rewrite(graph, context, Fusion::kChains);
  NodeRemoval gone(graph);
  Fuser(rewrite, gone).Run();
  gone.Apply(graph);
  ShareNumbers(graph);
  BeginWithMasks(graph);
}

}  // namespace cudaep::graph
