// One node's kernel as the host calls it.
//
// A call makes, for two inputs and one output, nine calls into the host: value, shape and data of each input, output
// and its data, and the stream. It allocates nothing and takes no lock while shapes stay as they were.
// Threads: Compute may run concurrently on different streams.
#pragma once

#include <memory>

#include "abi/host.h"
#include "abi/session_state.h"
#include "ops/planned_operator.h"

namespace cudaep::abi {

class HostKernel : public OrtKernelImpl {
 public:
  // Creation function of the host's kernel registry; `state` is the KernelRow.
  static OrtStatus* ORT_API_CALL Create(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept;

 private:
  explicit HostKernel(std::shared_ptr<SessionState> state);
  Status Init(const OrtKernelInfo* info);
  Status OnCompute(OrtKernelContext* context);
  Status Run(OrtKernelContext* context);
  Status Annotate(Status status, ops::TensorViews inputs) const;
  void OnRelease() { delete this; }

  std::shared_ptr<SessionState> state_;
  ops::PlannedOperator operator_;
  const char* label_ = "";  // "Add node 'x'"
  size_t input_count_ = 0;
  size_t output_count_ = 0;
  std::vector<uint8_t> has_output_;
};

}  // namespace cudaep::abi
