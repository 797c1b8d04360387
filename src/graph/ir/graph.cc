#include "graph/ir/graph.h"

namespace cudaep::graph::ir {

int Graph::AddValue(Value value) {
  values.push_back(std::move(value));
  return static_cast<int>(values.size()) - 1;
}

int Graph::AddConstant(std::string name, ops::HostTensor tensor) {
  const ops::HostTensor& kept = constants_.emplace_back(std::move(tensor));
  std::vector<Dim> dims;
  for (const int64_t size : kept.dims.dims()) dims.push_back({.size = size});
  return AddValue({.name = std::move(name), .type = kept.type, .dims = std::move(dims), .constant = kept.view()});
}

bool Graph::SameDims(int a, int b) const {
  const auto &x = value(a).dims, &y = value(b).dims;
  if (!x || !y || x->size() != y->size()) return false;
  for (size_t i = 0; i < x->size(); ++i) {
    if (!(*x)[i].Equals((*y)[i])) return false;
  }
  return true;
}

Uses::Uses(const Graph& graph)
    : producers_(graph.values.size(), -1), readers_(graph.values.size()), leaves_(graph.values.size(), 0) {
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] < 0) continue;
      readers_[static_cast<size_t>(node.inputs[i])].push_back({static_cast<int>(n), static_cast<int>(i)});
    }
    for (const int output : node.outputs) {
      if (output >= 0) producers_[static_cast<size_t>(output)] = static_cast<int>(n);
    }
  }
  for (size_t v = 0; v < graph.values.size(); ++v) leaves_[v] = graph.values[v].output >= 0 ? 1 : 0;
}

int Uses::OnlyReader(int value) const {
  const std::vector<Use>& all = readers(value);
  return all.size() == 1 && leaves_[static_cast<size_t>(value)] == 0 ? all.front().node : -1;
}

std::optional<Shape> NodeInfo::input_dims(int index) const {
  const int input = node_.inputs[static_cast<size_t>(index)];
  if (input < 0 || !graph_.value(input).dims) return std::nullopt;
  const std::vector<Dim>& dims = *graph_.value(input).dims;
  Shape shape(static_cast<int>(dims.size()), kUnknownDim);
  for (size_t i = 0; i < dims.size(); ++i) shape[static_cast<int>(i)] = dims[i].size;
  return shape;
}

std::optional<ops::ConstantInfo> NodeInfo::constant(int index) const {
  const int input = node_.inputs[static_cast<size_t>(index)];
  if (input < 0 || !graph_.value(input).is_constant()) return std::nullopt;
  const ops::TensorView& view = graph_.value(input).constant;
  return ops::ConstantInfo{.type = view.type, .dims = Shape(view.dims())};
}

}  // namespace cudaep::graph::ir
