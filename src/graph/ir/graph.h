// The graph of a compiled region that passes rewrite: nodes in execution order, values by index.
//
// The host's graph is imported into one (abi/region_import.h), passes change it (graph/pass/pass.h), and a Program is
// made of what is left (graph/exec/program_builder.h). Without passes it is the region as the model has it.
// Ownership: constants of the model are views into the host's memory, which lives while the region is compiled; those
// that passes make belong to the graph. Threads: one at a time.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "ops/attributes.h"

namespace cudaep::graph::ir {

// A dimension as the model states it: a number, or a name that stands for the same number everywhere in the graph, or
// neither.
struct Dim {
  int64_t size = kUnknownDim;
  std::string symbol = {};  // of a dimension without a known size

  bool known() const { return size != kUnknownDim; }
  // Whether the two are the same in every Run.
  bool Equals(const Dim& other) const {
    return known() || other.known() ? size == other.size : !symbol.empty() && symbol == other.symbol;
  }
};

struct Value {
  std::string name = {};  // for messages; those that passes make have the name of what they stand for
  DataType type = DataType::kUndefined;
  ops::ValueKind kind = ops::ValueKind::kTensor;
  std::optional<std::vector<Dim>> dims = {};  // absent without a known rank
  ops::TensorView constant = {};              // in host memory; not present: no constant
  bool is_initializer = false;                // a constant of the model's, by its own name
  int input = -1;                             // of the region
  int output = -1;                            // of the region

  bool is_constant() const { return constant.present(); }
};

struct Node {
  std::string name = {};
  std::string domain = {};
  std::string op_type = {};
  int since_version = 1;
  ops::Attributes attributes = {};
  std::vector<int> inputs = {};  // values; -1: left out
  std::vector<int> outputs = {};
  bool on_host = false;                   // arithmetic about shapes, done once for each set of input dimensions
  bool once = false;                      // the same in each of those, on the device (graph/pass/once.h)
  std::vector<std::string> sources = {};  // "Add node 'x'": the model's nodes that this one does

  bool Is(std::string_view op, std::string_view of_domain = "") const { return op_type == op && domain == of_domain; }
};

class Graph {
 public:
  std::vector<Value> values;
  std::vector<Node> nodes;           // a value's producer stands before its readers
  std::vector<int> inputs, outputs;  // values, in the region's order

  Value& value(int index) { return values[static_cast<size_t>(index)]; }
  const Value& value(int index) const { return values[static_cast<size_t>(index)]; }

  int AddValue(Value value);
  // A constant that a pass computed; it belongs to the graph.
  int AddConstant(std::string name, ops::HostTensor tensor);

  // Whether the model states all dimensions of both to be the same.
  bool SameDims(int a, int b) const;

 private:
  std::deque<ops::HostTensor> constants_;
};

// Producers and readers of values, as they are when it is made: newer values have none.
class Uses {
 public:
  struct Use {
    int node;
    int input;
  };

  explicit Uses(const Graph& graph);

  // A node; -1: none.
  int producer(int value) const {
    return static_cast<size_t>(value) < producers_.size() ? producers_[static_cast<size_t>(value)] : -1;
  }
  const std::vector<Use>& readers(int value) const {
    static const std::vector<Use> kNone;
    return static_cast<size_t>(value) < readers_.size() ? readers_[static_cast<size_t>(value)] : kNone;
  }
  // The node that alone reads the value, once, while nobody outside the region does; -1: there is no such node.
  int OnlyReader(int value) const;

 private:
  std::vector<int> producers_;
  std::vector<std::vector<Use>> readers_;
  std::vector<uint8_t> leaves_;
};

// What an operator's factory is told of a node. `graph`, `node` and `settings` outlive it.
class NodeInfo final : public ops::InfoWithAttributes {
 public:
  NodeInfo(const Graph& graph, const Node& node, const Settings& settings)
      : graph_(graph), node_(node), settings_(settings) {}

  std::string_view name() const override { return node_.name; }
  std::string_view op_type() const override { return node_.op_type; }
  std::string_view domain() const override { return node_.domain; }
  int since_version() const override { return node_.since_version; }
  int input_count() const override { return static_cast<int>(node_.inputs.size()); }
  int output_count() const override { return static_cast<int>(node_.outputs.size()); }
  ops::ValueKind input_kind(int index) const override { return KindOf(node_.inputs[static_cast<size_t>(index)]); }
  ops::ValueKind output_kind(int index) const override { return KindOf(node_.outputs[static_cast<size_t>(index)]); }
  DataType input_type(int index) const override { return TypeOf(node_.inputs[static_cast<size_t>(index)]); }
  DataType output_type(int index) const override { return TypeOf(node_.outputs[static_cast<size_t>(index)]); }
  std::optional<Shape> input_dims(int index) const override;
  std::optional<ops::ConstantInfo> constant(int index) const override;
  const Settings& settings() const override { return settings_; }

 protected:
  const ops::Attributes& attribute_map() const override { return node_.attributes; }

 private:
  ops::ValueKind KindOf(int value) const { return value < 0 ? ops::ValueKind::kAbsent : graph_.value(value).kind; }
  DataType TypeOf(int value) const { return value < 0 ? DataType::kUndefined : graph_.value(value).type; }

  const Graph& graph_;
  const Node& node_;
  const Settings& settings_;
};

}  // namespace cudaep::graph::ir
