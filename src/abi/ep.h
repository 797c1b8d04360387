// The execution provider of one session.
//
// Created and released by the factory. Owns the session's state together with the streams and kernels that share it.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "abi/capability.h"
#include "abi/factory.h"
#include "abi/host.h"
#include "abi/kept_allocators.h"
#include "abi/session_state.h"
#include "graph/exec/program.h"
#include "graph/exec/weight_store.h"

namespace cudaep::abi {

class Ep : public OrtEp {
 public:
  Ep(Factory& factory, std::shared_ptr<SessionState> state, std::optional<graph::BudgetSetting> budget,
     const OrtLogger* logger);

  const std::shared_ptr<SessionState>& state() const { return state_; }
  KeptAllocators& allocators() { return allocators_; }

 private:
  const char* OnGetName() const { return factory_.ep_name().c_str(); }
  Status OnGetCapability(const OrtGraph* graph, OrtEpGraphSupportInfo* support);
  Status OnCompile(const OrtGraph** graphs, const OrtNode** fused_nodes, size_t count, OrtNodeComputeInfo** infos,
                   OrtNode** context_nodes);
  Result<graph::Program> CompileRegion(const OrtGraph* fused, const OrtNode* node, Capability::Compiled* report);
  void OnReleaseNodeComputeInfos(OrtNodeComputeInfo** infos, size_t count);
  Status OnGetKernelRegistry(const OrtKernelRegistry** registry);
  Status OnCreateAllocator(const OrtMemoryInfo* info, OrtAllocator** allocator);
  Status OnCreateSyncStreamForDevice(const OrtMemoryDevice* device, OrtSyncStreamImpl** stream);
  Status OnIsConcurrentRunSupported(bool* supported);
  Status OnOnRunStart(const OrtRunOptions* options);
  Status OnOnRunEnd(const OrtRunOptions* options, bool sync);
  Status OnGetPreferredDataLayout(OrtEpDataLayout* layout);
  Status OnShouldConvertDataLayoutForOp(const char* domain, const char* op, OrtEpDataLayout layout,
                                        int* should_convert);
  Status OnSync();
  Status OnCreateProfiler(OrtEpProfilerImpl** profiler);
  Status OnOnSessionInitializationEnd() const;
  Status OnGetAvailableResource(OrtResourceCount* available) const;
  bool OnIsGraphCaptureEnabled() const { return state_->graph_runs() != nullptr; }
  OrtGraphCaptureNodeAssignmentPolicy OnGetGraphCaptureNodeAssignmentPolicy() const;
  bool OnIsGraphCaptured(int id) const;
  Status OnReplayGraph(int id);
  Status OnReleaseCapturedGraph(int id);

  Factory& factory_;
  std::shared_ptr<SessionState> state_;
  const OrtLogger* logger_;
  Capability capability_;
  KeptAllocators allocators_;
  graph::WeightStore weights_;
};

}  // namespace cudaep::abi
