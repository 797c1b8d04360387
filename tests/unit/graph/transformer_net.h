// Parts of transformers, as exporters write them.
#pragma once

#include "graph/pass/pass.h"
#include "graph_builder.h"

namespace cudaep::graph {

using ir::Dim;

inline const Dim kBatch = {kUnknownDim, "batch"}, kRows = {kUnknownDim, "rows"};
inline constexpr int64_t kHidden = 8, kHeads = 2, kSize = 4;
inline const std::vector<Dim> kHiddenDims = {kBatch, kRows, {kHidden}};

struct Net : Builder {
  using Builder::Builder;

  // In the type of the net, so that what it is near to is found in every type; rank 0.
  int Scalar(float number) {
    ops::HostTensor tensor{.type = DataType::kFloat, .dims = {}, .data = std::vector<std::byte>(sizeof number)};
    std::memcpy(tensor.data.data(), &number, sizeof number);
    return graph.AddConstant("scalar", std::move(tensor));
  }
  // A position; rank 0.
  int Index(int64_t number) {
    ops::HostTensor tensor{.type = DataType::kInt64, .dims = {}, .data = std::vector<std::byte>(sizeof number)};
    std::memcpy(tensor.data.data(), &number, sizeof number);
    return graph.AddConstant("index", std::move(tensor));
  }
  // A node whose result's dimensions the model does not state, only how many there are.
  int Open(const char* op, int version, std::vector<int> inputs, size_t rank, ops::Attributes attributes = {}) {
    return Add(op, version, std::move(inputs), std::vector<Dim>(rank), std::move(attributes));
  }
  int Op(const char* op, std::vector<int> inputs) { return Open(op, 13, std::move(inputs), 3); }
  // Shape arithmetic.
  int OnHost(const char* op, int version, std::vector<int> inputs, size_t rank, ops::Attributes attributes = {}) {
    const int output = Open(op, version, std::move(inputs), rank, std::move(attributes));
    graph.nodes.back().on_host = true;
    graph.value(output).type = DataType::kInt64;
    return output;
  }
  int Hidden(const char* name) { return Input(name, kHiddenDims); }
  std::vector<FusionNote> Run(const Settings& settings = WithoutChains()) { return RunPasses(graph, settings); }
  const ir::Node& node(size_t index) const { return graph.nodes[index]; }
  float FloatOf(size_t index, const char* name) const {
    return std::get<float>(node(index).attributes.at(std::string(name)));
  }
};

}  // namespace cudaep::graph
