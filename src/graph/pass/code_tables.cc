#include "graph/pass/code_tables.h"

#include <algorithm>

#include "graph/pass/chain_nodes.h"
#include "graph/pass/quantization.h"
#include "graph/pass/rewrite.h"
#include "ops/elementwise/chain_values.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

constexpr int kCodes = kernels::kChainTableSize;
// DequantizeLinear, a function and QuantizeLinear: fewer nodes in a row take no longer than looking up.
constexpr int kFewestNodes = 3;

// A value as a function of codes.
struct Table {
  int codes = -1;             // the value that has them; -1: the value is no such function
  std::vector<float> values;  // for the lowest code, the next one, ...
  int depth = 0;              // nodes on the longest way from the codes to it
};

class Tabulator {
 public:
  explicit Tabulator(const Rewriter& rewrite)
      : rewrite_(rewrite), graph_(rewrite.graph), tables_(graph_.values.size()), needed_(graph_.values.size(), 0) {}

  void Run() {
    for (int n = 0; n < rewrite_.node_count(); ++n) Tabulate(n);
    for (const int output : graph_.outputs) needed_[Index(output)] = 1;
    for (int n = rewrite_.node_count(); n-- > 0;) Visit(n);
  }

 private:
  static size_t Index(int value) { return static_cast<size_t>(value); }

  // Codes are functions of themselves.
  Table TableOf(int value) const {
    const Table& known = tables_[Index(value)];
    const ir::Value& codes = graph_.value(value);
    if (known.codes >= 0 || codes.is_constant() || !kernels::kChainTableTypes.Contains(codes.type)) return known;
    Table own{.codes = value, .values = {}, .depth = 0};
    for (int i = 0; i < kCodes; ++i) own.values.push_back(static_cast<float>(LowestCode(codes.type) + i));
    return own;
  }

  void Tabulate(int n) {
    const ir::Node& node = rewrite_.node(n);
    const auto terms = TermsOf(graph_, node);
    if (!terms) return;
    Table table;
    for (const NodeTerm& term : *terms) {
      if (!Apply(term, table)) return;
    }
    ++table.depth;
    tables_[Index(node.outputs[0])] = std::move(table);
  }

  // Of `before`, the node's term before; it becomes this one.
  bool Apply(const NodeTerm& term, Table& before) const {
    const ops::ChainFunction& function = *ops::FindChainFunction(term.function);
    std::vector<Table> operands;
    for (int i = 0; i < function.operands; ++i) {
      const int operand = term.operands[Index(i)];
      operands.push_back(operand == NodeTerm::kBefore ? before : operand < 0 ? Table() : TableOf(operand));
      if (operand != ops::ChainTerm::kNumber && operands.back().codes < 0) return false;
    }
    Table result;
    for (const Table& operand : operands) {
      if (operand.codes < 0) continue;
      if (result.codes >= 0 && result.codes != operand.codes) return false;
      result.codes = operand.codes;
      result.depth = std::max(result.depth, operand.depth);
    }
    for (size_t i = 0; i < kCodes; ++i) {
      std::vector<float> values(operands.size());
      std::ranges::transform(operands, values.begin(), [&](const Table& operand) {
        return operand.codes < 0 ? term.numbers[0] : operand.values[i];
      });
      const auto value = ops::ChainValue(function, values, term.numbers);
      if (!value) return false;
      result.values.push_back(*value);
    }
    before = std::move(result);
    return true;
  }

  // From the last node on: of tables only those are made that something else reads.
  void Visit(int n) {
    const ir::Node& node = rewrite_.node(n);
    const int output = node.outputs.empty() ? -1 : node.outputs[0];
    if (output >= 0 && tables_[Index(output)].codes >= 0) {
      if (needed_[Index(output)] == 0) return;
      const bool may_be =
          tables_[Index(output)].depth >= kFewestNodes && QuantizationOf(graph_, node, "QuantizeLinear");
      if (may_be && LookUp(n, tables_[Index(output)])) return;
    }
    for (const int input : node.inputs) {
      if (input >= 0) needed_[Index(input)] = 1;
    }
  }

  bool LookUp(int n, const Table& table) const {
    ir::Node made = rewrite_.Instead(n, ops::kFusedDomain, "Elementwise", 1);
    const ir::Value& codes = graph_.value(rewrite_.node(n).outputs[0]);
    ops::HostTensor tensor{.type = codes.type, .dims = {kCodes}, .data = {}};
    for (const float value : table.values) {
      tensor.data.push_back(static_cast<std::byte>(static_cast<int32_t>(value)));
    }
    made.inputs = {table.codes, graph_.AddConstant(codes.name, std::move(tensor))};
    SetLookUp(made, static_cast<float>(LowestCode(graph_.value(table.codes).type)));
    return rewrite_.Replace(n, std::move(made));
  }

  const Rewriter& rewrite_;
  ir::Graph& graph_;
  std::vector<Table> tables_;    // of values
  std::vector<uint8_t> needed_;  // values, by what is no table or stays as it is
};

}  // namespace

void LookUpCodes(ir::Graph& graph, const PassContext& context) {
  const Rewriter rewrite(graph, context, Fusion::kChains);
  Tabulator(rewrite).Run();
  RemoveDeadNodes(graph);
}

}  // namespace cudaep::graph
