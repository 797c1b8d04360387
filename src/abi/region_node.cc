#include "abi/region_node.h"

#include "abi/thunk.h"
#include "core/strings.h"
#include "graph/exec/region_operator.h"
#include "memory/allocation_label.h"

namespace cudaep::abi {

RegionNode::RegionNode(std::shared_ptr<SessionState> state, KeptAllocators& allocators, graph::Program program)
    : OrtNodeComputeInfo{}, allocators_(allocators), call_(std::move(state)) {
  ort_version_supported = Host().version;
  CreateState = Thunk<&RegionNode::OnCreateState>();
  Compute = Thunk<&RegionNode::OnCompute>();
  ReleaseState = Thunk<&RegionNode::OnReleaseState>();
  call_.label = memory::InternLabel(StrCat("region of ", program.steps.size(), " nodes from ",
                                           program.steps.front().label, " to ", program.steps.back().label));
  call_.node = {.name = call_.label, .op_type = "CompiledRegion"};
  call_.inputs.resize(program.inputs.size());
  call_.has_output.assign(program.outputs.size(), 1);
  std::vector<DataType> types;
  types.reserve(program.outputs.size());
  for (const int output : program.outputs) types.push_back(program.values[static_cast<size_t>(output)].type);
  call_.planned.Init(std::make_unique<graph::RegionOperator>(std::move(program)), std::move(types));
  call_.state->CountRegions(1);
  call_.state->Need(call_.planned.op().libraries()).IgnoreError();  // collectives, which can fail, are in no region
}

Status RegionNode::OnCreateState(OrtNodeComputeContext*, void** state) {
  *state = this;
  return Status::Ok();
}

Status RegionNode::OnCompute(void*, OrtKernelContext* context) {
  allocators_.Keep(context);
  return call_.Run(context);
}

}  // namespace cudaep::abi
