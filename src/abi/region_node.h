// A compiled region as the host calls it.
//
// Threads: Compute may run concurrently on different streams.
#pragma once

#include <memory>

#include "abi/kept_allocators.h"
#include "abi/node_call.h"
#include "graph/exec/program.h"

namespace cudaep::abi {

class RegionNode : public OrtNodeComputeInfo {
 public:
  // `allocators` outlives the node.
  RegionNode(std::shared_ptr<SessionState> state, KeptAllocators& allocators, graph::Program program);
  RegionNode(const RegionNode&) = delete;
  RegionNode& operator=(const RegionNode&) = delete;
  ~RegionNode() { call_.state->CountRegions(-1); }

 private:
  Status OnCreateState(OrtNodeComputeContext*, void** state);
  Status OnCompute(void* state, OrtKernelContext* context);
  void OnReleaseState(void*) {}

  KeptAllocators& allocators_;
  NodeCall call_;
};

}  // namespace cudaep::abi
