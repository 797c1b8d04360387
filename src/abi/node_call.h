// One call of a node, as the host makes it: inputs, plan, outputs, launch. What a kernel and a compiled region share.
//
// A call makes, for two inputs and one output, nine calls into the host: value, shape and data of each input, output
// and its data, and the stream. A constant input costs none of its three: the host keeps it where it is for the
// session, so its view is taken once. In models with control flow, and for nodes that want one value in both memories,
// one call more for each input tells whether it lies where the kernel reads it. The call allocates nothing and takes no
// lock while shapes stay as they were.
// Threads: filled by one thread; Run may then be called concurrently on different streams.
#pragma once

#include <memory>
#include <vector>

#include "abi/host.h"
#include "abi/moved_inputs.h"
#include "abi/session_state.h"
#include "ops/planned_operator.h"

namespace cudaep::abi {

struct NodeCall {
  // An input that is the same in every Run, and where the kernel's own packed form of it lies.
  struct FixedInput {
    ops::TensorView view;  // not present: read from the host at each call
    Shape dims;            // what a packed view's dimensions point to
    std::shared_ptr<void> memory;
    bool on_host = false;  // where the kernel reads it
  };

  explicit NodeCall(std::shared_ptr<SessionState> session);
  ~NodeCall();
  NodeCall(const NodeCall&) = delete;
  NodeCall& operator=(const NodeCall&) = delete;

  // On the session's device, whichever is current.
  Status Run(OrtKernelContext* context);

  const std::shared_ptr<SessionState> state;
  ops::PlannedOperator planned;
  const char* label = "";  // "Add node 'x'"
  ModelNode node;          // for profiles, without costs
  std::vector<FixedInput> inputs;
  std::vector<uint8_t> has_output;
  bool moves_inputs = false;  // one value is wanted in both memories: the host brings it to one

 private:
  class Outputs;

  Status RunHere(OrtKernelContext* context);
  Status ReadInputs(OrtKernelContext* context, ops::TensorView* views, MovedInputs* moved) const;
  ModelNode Described(const ops::PlannedCall& call, ops::TensorViews views) const;
  Status Annotate(Status status, ops::TensorViews views) const;
};

}  // namespace cudaep::abi
