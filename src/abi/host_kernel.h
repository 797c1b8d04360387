// One node's kernel as the host makes and calls it.
//
// Weights that the operator packs replace the host's, which may free its own.
// Threads: Compute may run concurrently on different streams; creation and packing come before.
#pragma once

#include <memory>

#include "abi/host.h"
#include "abi/kernel_info.h"
#include "abi/node_call.h"

namespace cudaep::abi {

class HostKernel : public OrtKernelImpl {
 public:
  // Creation function of the host's kernel registry; `state` is the KernelRow that the kernel was registered with.
  static OrtStatus* ORT_API_CALL Create(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept;

  HostKernel(const HostKernel&) = delete;
  HostKernel& operator=(const HostKernel&) = delete;

 private:
  explicit HostKernel(std::shared_ptr<SessionState> state);
  Status Init(const OrtKernelInfo* info, const ops::KernelRow& row);
  Status OnCompute(OrtKernelContext* context) { return call_.Run(context); }
  Status OnPrePackWeight(const OrtValue* tensor, int index, OrtAllocator* allocator,
                         OrtSharedPrePackedWeightCache* cache, bool* packed);
  Status FindValuesInBothMemories(const KernelInfo& info);
  Status FixInput(const OrtValue* constant, NodeCall::FixedInput* input) const;
  void OnRelease() { delete this; }

  NodeCall call_;
};

}  // namespace cudaep::abi
