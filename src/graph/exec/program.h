// What a compiled region does: its nodes in order, their values, and the weights it holds.
//
// Immutable once it is made; it has no sizes and no addresses of a Run. RegionOperator turns it, for the dimensions of
// a Run's inputs, into a Recipe (graph/exec/region_operator.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "graph/shape/host_operator.h"
#include "ops/registry.h"
#include "runtime/replayed_nodes.h"

namespace cudaep::graph {

struct ProgramValue {
  std::string name = {};  // for messages
  DataType type = DataType::kUndefined;
  int input = -1;   // of the region
  int output = -1;  // of the region
  bool is_constant = false;
  ops::HostTensor host_constant = {};  // of a constant that is read in host memory; dims and type of every constant
  void* device_constant = nullptr;     // of a constant that is read on the device: Program::memory
};

struct ProgramStep {
  // One of the two: what runs on the device, or arithmetic about shapes that is done on the host once for each Recipe.
  ops::OperatorPtr op;
  std::unique_ptr<const HostOperator> host_op;
  const ops::KernelRow* row = nullptr;  // of op
  const char* label = "";               // "Add node 'x'", interned
  ModelNode shown = {};                 // for profiles, without costs
  std::vector<int> inputs;              // values, -1: left out
  std::vector<int> outputs;             // values, -1: left out
  std::vector<void*> packed = {};       // for each input of op its packed form (Operator::Pack), or null
  bool reads_dims_only = false;         // of host_op: nothing of its inputs but dimensions
  bool runs = true;                     // false for an op of whose results nothing is read but dimensions
  bool once = false;                    // as ir::Node says

  // Whether the step reads the input in host memory.
  bool ReadsOnHost(size_t input) const { return host_op != nullptr || row->IsHostInput(static_cast<int>(input)); }
};

// A dimension of an input with a name of the model's.
struct StatedDim {
  std::string name;
  size_t input = 0;
  int axis = 0;
};

struct Program {
  std::vector<ProgramValue> values;
  std::vector<ProgramStep> steps;
  std::vector<int> inputs, outputs;           // values, in the region's order
  std::vector<StatedDim> stated_dims;         // for errors (graph/exec/stated_dims.h)
  std::vector<std::shared_ptr<void>> memory;  // weights on the device
  bool replays = false;                       // may be launched as CUDA graphs
};

}  // namespace cudaep::graph
