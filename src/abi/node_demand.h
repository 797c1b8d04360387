// What a node of the host's graph uses of the device's memory, for the session's memory budget.
//
// Shapes are those that the model states. Where it leaves dimensions open, the operators' own shape inference fills
// them in from the values before, and provider option budget_dynamic_dim stands for what is open at the start. Scratch
// memory is that of the plan that a Run would make, made here, so a library's plan is found again later. Under
// prefer_nhwc an operator that has a channels-last form is counted with transposes around it.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "abi/node_info.h"
#include "graph/budget.h"
#include "ops/registry.h"

namespace cudaep::abi {

// Of one node: everything but the copies, which depend on where the nodes before it are.
struct NodeUse {
  graph::NodeDemand demand;
  std::vector<graph::NodeDemand::Block> device_inputs;  // values that the node reads on the device; by name
  std::vector<std::string> device_outputs;              // names
};

class NodeUseReader {
 public:
  // `stream` for plans; both must outlive the reader.
  NodeUseReader(const Settings& settings, const graph::NodeStats& stats, StreamContext& stream)
      : settings_(settings), stats_(stats), stream_(stream) {}

  // Of a node that a kernel of ours takes. In the graph's order, for what nodes tell about later ones' shapes.
  Result<NodeUse> Read(const OrtNode* node);

 private:
  // Shape of a value, absent where a dimension is unknown.
  std::optional<Shape> ShapeOf(const std::string& name, const std::optional<Shape>& stated) const;
  Status ReadInputs(const NodeInfo& info, const ops::KernelRow& row, const ops::Operator* op, NodeUse* use);
  // Output shapes and scratch memory, as far as they can be known.
  Status Plan(const NodeInfo& info, const ops::Operator& op, NodeUse* use);
  Status ReadOutputs(const NodeInfo& info, const ops::KernelRow& row, NodeUse* use);

  const Settings& settings_;
  const graph::NodeStats& stats_;
  StreamContext& stream_;
  std::map<std::string, Shape> inferred_;
  // Of the node that is being read.
  std::vector<Shape> dims_;
  std::vector<ops::TensorView> views_;
  bool is_planable_ = true;  // all that a plan depends on is known
};

}  // namespace cudaep::abi
