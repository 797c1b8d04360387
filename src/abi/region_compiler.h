// From a graph that the host has fused to the program of a compiled region.
//
// The host's graph and its constants end with Compile, so the program holds copies: on the device those that are read
// there, packed where the operator wants that, on the host those that are read here.
// Threads: one at a time.
#pragma once

#include <map>
#include <string>

#include "abi/node_info.h"
#include "abi/region_claims.h"
#include "abi/session_state.h"
#include "graph/exec/program.h"

namespace cudaep::abi {

class RegionCompiler {
 public:
  RegionCompiler(const SessionState& state, const RegionClaims& claims) : state_(state), claims_(claims) {}

  // Once. `node` stands for the graph, and has its inputs and outputs in the order in which a call gives them.
  Result<graph::Program> Compile(const OrtGraph* graph, const OrtNode* node);

 private:
  std::string LabelOf(const NodeInfo& info, const graph::ProgramStep& step) const;
  Status AddNode(const OrtNode* node);
  Result<int> ValueOf(const OrtValueInfo* info, DataType type);
  Status ReadConstant(const OrtValueInfo* info, int value);
  Status CopyConstants();
  // An input of a step that reads a value.
  struct Use {
    graph::ProgramStep* step;
    size_t input;
  };
  Status CopyConstant(int value, const std::vector<Use>& uses, StreamContext& stream);
  // False where the step takes the weight as it is.
  Result<bool> Pack(const Use& use, const ops::TensorView& weight, StreamContext& stream);

  const SessionState& state_;
  const RegionClaims& claims_;
  graph::Program program_;
  std::map<std::string, int> values_;
  std::map<int, const OrtValue*> constants_;  // by value
};

}  // namespace cudaep::abi
