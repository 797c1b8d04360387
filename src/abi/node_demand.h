// What a node of the host's graph uses of the device's memory, for the session's memory budget.
//
// Shapes are those that the model states. Where it leaves dimensions open, the operators' own shape inference fills
// them in from the values before, and provider option budget_dynamic_dim stands for what is open at the start. Scratch
// memory is that of a plan made here. Nothing is measured: the node may never run, or not with these shapes. So where
// the session's settings measure, it is that of the plan which the library's heuristics suggest, and a Run may use
// another; in all others it is the Run's own, found again then. Under prefer_nhwc a node that the host may turn
// channels-last is counted with transposes around it.
#pragma once

#include <functional>
#include <map>
#include <optional>
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

// Whether the host may turn nodes of an ONNX operator channels-last.
using MayTurn = std::function<bool(std::string_view op)>;

class NodeUseReader {
 public:
  // `stream` for plans; it, `state` and `stats` must outlive the reader.
  NodeUseReader(const SessionState& state, MayTurn may_turn, const graph::NodeStats& stats, StreamContext& stream);

  // Of a node that a kernel of ours takes. In the graph's order, for what nodes tell about later ones' shapes.
  // `assigned`: the host has given us the node before, and what it did not turn then it leaves as it is.
  Result<NodeUse> Read(const OrtNode* node, bool assigned);

 private:
  // From the stats file, where nodes without a name go by their operator's and the host may have seen this one in the
  // other layout, by another name.
  std::optional<uint64_t> Recorded(const NodeInfo& info) const;
  // Shape of a value, absent where a dimension is unknown.
  std::optional<Shape> ShapeOf(const std::string& name, const std::optional<Shape>& stated) const;
  Status ReadInputs(const NodeInfo& info, const ops::KernelRow& row, const ops::Operator* op, NodeUse* use);
  // Output shapes and scratch memory, as far as they can be known.
  Status Plan(const NodeInfo& info, const ops::Operator& op, NodeUse* use);
  Status ReadOutputs(const NodeInfo& info, const ops::KernelRow& row, NodeUse* use);

  const SessionState& state_;
  Settings settings_;  // the session's, without measuring
  MayTurn may_turn_;
  const graph::NodeStats& stats_;
  StreamContext& stream_;
  std::map<std::string, Shape> inferred_;
  // Of the node that is being read.
  std::vector<Shape> dims_;
  std::vector<ops::TensorView> views_;
  bool is_planable_ = true;  // all that a plan depends on is known
};

}  // namespace cudaep::abi
