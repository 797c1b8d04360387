#include "graph/pass/row_products.h"

#include <algorithm>

#include "graph/pass/layout.h"
#include "graph/pass/strided_view.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

// The first two of three dimensions swapped, as between [batch, tokens, size] and [tokens, batch, size].
const std::vector<int64_t> kSwapped = {1, 0, 2};

class RowProducts {
 public:
  explicit RowProducts(const Rewriter& rewrite) : rewrite_(rewrite), graph_(rewrite.graph), match_(rewrite.match) {}

  // Gemm of rows that a Reshape makes one dimension, and another one apart again.
  void KeepRows(int index) const {
    const ir::Node& gemm = rewrite_.node(index);
    if (gemm.on_host || !gemm.Is("Gemm") || IntAttribute(gemm, "transA", 0) != 0 || !HasPlainBias(gemm)) return;
    const ir::Node* const flat = match_.Maker(gemm.inputs[0], "Reshape");
    const int last = match_.OnlyReader(gemm.outputs[0]);
    if (flat == nullptr || last < 0 || !rewrite_.node(last).Is("Reshape")) return;
    const auto &from = graph_.value(flat->inputs[0]).dims, &to = graph_.value(rewrite_.node(last).outputs[0]).dims;
    const auto &x = graph_.value(gemm.inputs[0]).dims, &y = graph_.value(gemm.outputs[0]).dims;
    if (!from || !to || !x || !y || to->size() < 3 || !x->back().known() || !to->back().Equals(y->back())) return;
    std::vector<ir::Dim> rows(to->begin(), to->end() - 1);
    rows.push_back(x->back());
    const auto target = ReshapeTarget(*from, rows);
    if (!target) return;
    ir::Node product = rewrite_.Instead(last, ops::kFusedDomain, "MatMul", 1);
    product.inputs = {Added(gemm.inputs[0], std::move(rows)), gemm.inputs[1], InputOf(gemm, 2), -1};
    for (const char* name : {"transB", "alpha"}) {
      const auto found = gemm.attributes.find(std::string_view(name));
      if (found != gemm.attributes.end()) product.attributes.insert(*found);
    }
    ir::Node apart{.name = flat->name, .op_type = "Reshape", .since_version = 13};
    apart.inputs = {flat->inputs[0], AddInts(rewrite_.graph, flat->name, *target)};
    apart.outputs = {product.inputs[0]};
    rewrite_.Replace(last, std::move(product), {std::move(apart)});
  }

  // What turns the result of a product turns what the product reads, where that is turned anyway.
  void TurnBefore(int index) const {
    const ir::Node& turn = rewrite_.node(index);
    if (!IsSwap(turn)) return;
    std::vector<int> members;
    int value = turn.inputs[0];
    for (int maker = MemberOf(value); maker >= 0; maker = MemberOf(value)) {
      members.push_back(maker);
      value = rewrite_.node(maker).inputs[RowsOf(rewrite_.node(maker))];
    }
    if (members.empty() || !match_.IsPrivate(value) || !IsTurned(value)) return;
    std::ranges::reverse(members);
    std::vector<ir::Node> before = {Swap(value, Swapped(value))};
    int rows = before[0].outputs[0];
    for (const int member : members) {
      before.push_back(Again(member, rows));
      rows = before.back().outputs[0];
    }
    ir::Node last = std::move(before.back());
    before.pop_back();
    last.outputs = turn.outputs;
    last.sources.clear();  // they are those of a node between
    rewrite_.Replace(index, std::move(last), std::move(before));
  }

  // What turns the operand of a product turns its result, where others turn that anyway.
  void TurnBehind(int index) const {
    const ir::Node& turn = rewrite_.node(index);
    if (!IsSwap(turn)) return;
    std::vector<int> members;
    int value = turn.outputs[0];
    for (int next = match_.OnlyReader(value); next >= 0 && IsMember(next, value); next = match_.OnlyReader(value)) {
      members.push_back(next);
      value = rewrite_.node(next).outputs[0];
    }
    if (members.empty() || graph_.value(value).output >= 0 || !IsTurnedByAll(value)) return;
    std::vector<ir::Node> before;
    int rows = turn.inputs[0];
    for (const int member : members) {
      before.push_back(Again(member, rows));
      rows = before.back().outputs[0];
    }
    rewrite_.Replace(members.back(), Swap(rows, value), std::move(before));
  }

 private:
  bool HasPlainBias(const ir::Node& gemm) const {
    return InputOf(gemm, 2) < 0 ||
           (FloatAttribute(gemm, "beta", 1) == 1 && IsVectorOfLast(graph_, gemm.inputs[2], gemm.outputs[0]));
  }

  bool IsSwap(const ir::Node& node) const {
    return !node.on_host && node.Is("Transpose") && match_.IntsOf(node, "perm", node.inputs.size()) == kSwapped &&
           graph_.value(node.inputs[0]).dims && graph_.value(node.outputs[0]).dims;
  }

  // Which input has the rows of a node that makes each of its rows of one of theirs; -1: the node is no such.
  int RowsInput(const ir::Node& node) const {
    if (node.on_host || node.outputs.size() != 1 || !Has3Dims(node.outputs[0])) return -1;
    const bool fused = node.Is("MatMul", ops::kFusedDomain);
    if (fused || node.Is("MatMul")) {
      const auto& weights = graph_.value(node.inputs[1]).dims;
      const bool is_of_rows = weights && weights->size() == 2 && !node.attributes.contains("transA") &&
                              (!fused || node.inputs[3] < 0) && Has3Dims(node.inputs[0]);
      return is_of_rows ? 0 : -1;
    }
    if (!node.Is("Add")) return -1;
    for (int i = 0; i < 2; ++i) {
      if (graph_.SameDims(node.inputs[static_cast<size_t>(i)], node.outputs[0]) &&
          IsVectorOfLast(graph_, node.inputs[static_cast<size_t>(1 - i)], node.outputs[0])) {
        return i;
      }
    }
    return -1;
  }
  size_t RowsOf(const ir::Node& node) const { return static_cast<size_t>(RowsInput(node)); }
  bool Has3Dims(int value) const { return graph_.value(value).dims && graph_.value(value).dims->size() == 3; }

  bool IsMember(int index, int rows) const {
    const int input = rewrite_.IsTaken(index) ? -1 : RowsInput(rewrite_.node(index));
    return input >= 0 && rewrite_.node(index).inputs[static_cast<size_t>(input)] == rows;
  }
  // The node that makes the value for one reader; -1: there is none, or it is no member.
  int MemberOf(int value) const {
    const int maker = match_.Maker(value) == nullptr ? -1 : match_.MakerIndex(value);
    const bool is_member =
        maker >= 0 && match_.IsPrivate(value) && !rewrite_.IsTaken(maker) && RowsInput(rewrite_.node(maker)) >= 0;
    return is_member ? maker : -1;
  }

  // By nodes that read the value of one before.
  bool IsTurned(int value) const {
    for (const ir::Node* maker = match_.Maker(value); maker != nullptr; maker = match_.Maker(value)) {
      if (maker->Is("Transpose")) return true;
      if (!IsViewNode(graph_, match_, *maker) || !match_.IsPrivate(maker->inputs[0])) return false;
      value = maker->inputs[0];
    }
    return false;
  }

  // Whether each reader turns it, perhaps of another shape, or a part of it.
  bool IsTurnedByAll(int value) const {
    const auto& readers = match_.uses().readers(value);
    return graph_.value(value).output < 0 && std::ranges::all_of(readers, [&](const ir::Uses::Use& use) {
             const ir::Node& reader = rewrite_.node(use.node);
             if (reader.on_host || reader.Is("Transpose")) return true;
             return IsViewNode(graph_, match_, reader) &&
                    std::ranges::all_of(reader.outputs, [&](int output) { return IsTurnedByAll(output); });
           });
  }

  int Added(int like, std::vector<ir::Dim> dims) const {
    const ir::Value& value = graph_.value(like);
    return rewrite_.graph.AddValue({.name = value.name, .type = value.type, .dims = std::move(dims)});
  }
  int Swapped(int value) const { return Added(value, Ordered(*graph_.value(value).dims, kSwapped)); }
  ir::Node Swap(int from, int to) const {
    ir::Node node{.name = graph_.value(to).name, .op_type = "Transpose", .since_version = 13};
    node.attributes = {{"perm", kSwapped}};
    node.inputs = {from}, node.outputs = {to};
    return node;
  }
  // The node once more, of other rows.
  ir::Node Again(int index, int rows) const {
    ir::Node node = rewrite_.node(index);
    node.inputs[RowsOf(node)] = rows;
    node.outputs = {Swapped(node.outputs[0])};
    return node;
  }

  const Rewriter& rewrite_;
  const ir::Graph& graph_;
  const Matcher& match_;
};

void ForAll(ir::Graph& graph, const PassContext& context, void (RowProducts::*change)(int) const) {
  const Rewriter rewrite(graph, context, Fusion::kViews);
  const RowProducts products(rewrite);
  for (int n = 0; n < rewrite.node_count(); ++n) (products.*change)(n);
  rewrite.PlaceNodesInFront();
  RemoveDeadNodes(graph);
}

}  // namespace

void TurnProductsOfRows(ir::Graph& graph, const PassContext& context) {
  for (const auto change : {&RowProducts::KeepRows, &RowProducts::TurnBefore, &RowProducts::TurnBehind}) {
    ForAll(graph, context, change);
  }
}

}  // namespace cudaep::graph
