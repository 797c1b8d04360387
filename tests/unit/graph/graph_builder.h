// Graphs of regions, written node by node.
#pragma once

#include <cstring>

#include "graph/ir/graph.h"

namespace cudaep::graph {

using Ops = std::vector<std::string>;

// For tests of other passes: what these leave alone stays what it is.
inline Settings WithoutChains() {
  Settings settings;
  settings.fusion_skip.Add(Fusion::kChains);
  return settings;
}

class Builder {
 public:
  explicit Builder(DataType element = DataType::kFloat) : type(element) {}

  int Value(const char* name, std::vector<ir::Dim> dims) {
    return graph.AddValue({.name = name, .type = type, .dims = std::move(dims)});
  }
  int Input(const char* name, std::vector<ir::Dim> dims) {
    const int value = Value(name, std::move(dims));
    graph.value(value).input = static_cast<int>(graph.inputs.size());
    graph.inputs.push_back(value);
    return value;
  }
  // All bytes are 0.
  int Constant(const char* name, Shape dims) {
    ops::HostTensor tensor{.type = type, .dims = dims, .data = {}};
    tensor.data.resize(tensor.view().bytes());
    return graph.AddConstant(name, std::move(tensor));
  }
  template <class T>
  int Vector(const char* name, DataType element, std::vector<T> values) {
    ops::HostTensor tensor{.type = element, .dims = Shape{static_cast<int64_t>(values.size())}, .data = {}};
    tensor.data.resize(tensor.view().bytes());
    std::memcpy(tensor.data.data(), values.data(), tensor.data.size());
    return graph.AddConstant(name, std::move(tensor));
  }
  int Ints(const char* name, std::vector<int64_t> values) { return Vector(name, DataType::kInt64, std::move(values)); }
  int Add(const char* op, int version, std::vector<int> inputs, std::vector<ir::Dim> dims,
          ops::Attributes attributes = {}) {
    const int output = Value(op, std::move(dims));
    graph.nodes.push_back({.name = op,
                           .op_type = op,
                           .since_version = version,
                           .attributes = std::move(attributes),
                           .inputs = std::move(inputs),
                           .outputs = {output},
                           .sources = {op}});
    return output;
  }
  void Output(int value) {
    graph.value(value).output = static_cast<int>(graph.outputs.size());
    graph.outputs.push_back(value);
  }
  Ops Operators() const {
    Ops ops;
    for (const ir::Node& node : graph.nodes) ops.push_back(node.op_type);
    return ops;
  }

  DataType type;
  ir::Graph graph;
};

}  // namespace cudaep::graph
