// One node's kernel as the host calls it.
//
// A call makes, for two inputs and one output, nine calls into the host: value, shape and data of each input, output
// and its data, and the stream. A constant input costs none of its three: the host keeps it where it is for the
// session, so its view is taken once. In models with control flow, and for nodes that want one value in both memories,
// one call more for each input tells whether it lies where the kernel reads it. The call allocates nothing and takes no
// lock while shapes stay as they were.
// Weights that the operator packs replace the host's, which may free its own.
// Threads: Compute may run concurrently on different streams; creation and packing come before.
#pragma once

#include <memory>
#include <vector>

#include "abi/host.h"
#include "abi/kernel_info.h"
#include "abi/moved_inputs.h"
#include "abi/session_state.h"
#include "ops/planned_operator.h"

namespace cudaep::abi {

class HostKernel : public OrtKernelImpl {
 public:
  // Creation function of the host's kernel registry; `state` is the KernelRow that the kernel was registered with.
  static OrtStatus* ORT_API_CALL Create(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept;

  ~HostKernel();
  HostKernel(const HostKernel&) = delete;
  HostKernel& operator=(const HostKernel&) = delete;

 private:
  // An input that is the same in every Run, and where the kernel's own packed form of it lies.
  struct FixedInput {
    ops::TensorView view;  // not present: read from the host at each call
    Shape dims;            // what a packed view's dimensions point to
    std::shared_ptr<void> memory;
    bool on_host = false;  // where the kernel reads it
  };
  class Outputs;

  explicit HostKernel(std::shared_ptr<SessionState> state);
  Status Init(const OrtKernelInfo* info, const ops::KernelRow& row);
  Status OnCompute(OrtKernelContext* context);
  Status OnPrePackWeight(const OrtValue* tensor, int index, OrtAllocator* allocator,
                         OrtSharedPrePackedWeightCache* cache, bool* packed);
  Status Run(OrtKernelContext* context);
  Status FindValuesInBothMemories(const KernelInfo& info);
  Status FixInput(const OrtValue* constant, FixedInput* input) const;
  Status ReadInputs(OrtKernelContext* context, ops::TensorView* views, MovedInputs* moved) const;
  Status Pack(int index, const ops::TensorView& weight, size_t bytes);
  ModelNode Described(const ops::PlannedCall& call, ops::TensorViews inputs) const;
  Status Annotate(Status status, ops::TensorViews inputs) const;
  void OnRelease() { delete this; }

  std::shared_ptr<SessionState> state_;
  ops::PlannedOperator operator_;
  const char* label_ = "";  // "Add node 'x'"
  ModelNode node_;          // for profiles, without costs
  std::vector<FixedInput> inputs_;
  bool moves_inputs_ = false;  // one value is wanted in both memories: the host brings it to one
  std::vector<uint8_t> has_output_;
};

}  // namespace cudaep::abi
