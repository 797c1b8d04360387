#include "host_run.h"

#include "graph/shape/host_operator.h"

namespace cudaep::test {
namespace {

// The values lie in allocations of their own size, those of Shape and Size nowhere.
Status Evaluate(const Node& node, std::vector<ops::HostTensor>& outputs) {
  std::unique_ptr<graph::HostOperator> op;
  CUDAEP_ASSIGN_OR_RETURN(op, graph::MakeHostOperator(node));
  std::vector<ops::TensorView> views;
  for (const InputTensor& input : node.inputs) {
    views.push_back(input.View(graph::ReadsDimsOnly(node) ? nullptr : input.values.data()));
  }
  return op->Evaluate(views, outputs);
}

}  // namespace

RunResult RunOnHost(const Node& node) {
  RunResult result;
  std::vector<ops::HostTensor> outputs;
  result.status = Evaluate(node, outputs);
  if (!result.status.ok()) return result;
  std::vector<OutputTensor>& launch = result.launches.emplace_back();
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (node.outputs[i] != DataType::kUndefined && node.outputs[i] != outputs[i].type) {
      result.status = Internal("output ", i, " is ", DataTypeName(outputs[i].type));
    }
    launch.push_back({.shape = outputs[i].dims, .values = std::move(outputs[i].data)});
  }
  return result;
}

}  // namespace cudaep::test
