#include "abi/ep.h"

#include <algorithm>

#include "abi/api_version.h"
#include "abi/forked.h"
#include "abi/host_allocator.h"
#include "abi/profiler.h"
#include "abi/region_import.h"
#include "abi/region_node.h"
#include "abi/sync_stream.h"
#include "abi/thunk.h"
#include "core/log.h"
#include "device/device.h"
#include "graph/exec/program_builder.h"
#include "graph/pass/pass.h"
#include "ops/registry.h"
#include "runtime/own_stream.h"

namespace cudaep::abi {

Ep::Ep(Factory& factory, std::shared_ptr<SessionState> state, std::optional<graph::BudgetSetting> budget,
       const OrtLogger* logger)
    : OrtEp{}, factory_(factory), state_(std::move(state)), logger_(logger), capability_(std::move(budget)) {
  profile::ShowRanges();
  state_->SessionMade();
  ort_version_supported = Host().version;
  GetName = Thunk<&Ep::OnGetName>();
  GetCapability = Thunk<&Ep::OnGetCapability>();
  Compile = Thunk<&Ep::OnCompile>();
  ReleaseNodeComputeInfos = Thunk<&Ep::OnReleaseNodeComputeInfos>();
  GetKernelRegistry = Thunk<&Ep::OnGetKernelRegistry>();
  CreateAllocator = Thunk<&Ep::OnCreateAllocator>();
  CreateSyncStreamForDevice = Thunk<&Ep::OnCreateSyncStreamForDevice>();
  IsConcurrentRunSupported = Thunk<&Ep::OnIsConcurrentRunSupported>();
  OnRunStart = Thunk<&Ep::OnOnRunStart>();
  OnRunEnd = Thunk<&Ep::OnOnRunEnd>();
  GetPreferredDataLayout = Thunk<&Ep::OnGetPreferredDataLayout>();
  ShouldConvertDataLayoutForOp = Thunk<&Ep::OnShouldConvertDataLayoutForOp>();
  if (Host().version >= kApiProfiler) CreateProfiler = Thunk<&Ep::OnCreateProfiler>();
  if (Host().version >= kApiSync) Sync = Thunk<&Ep::OnSync>();
  if (Host().version >= kApiAvailableResource) GetAvailableResource = Thunk<&Ep::OnGetAvailableResource>();
  if (Host().version >= kApiInitializationEnd) OnSessionInitializationEnd = Thunk<&Ep::OnOnSessionInitializationEnd>();
  if (Host().version >= kApiGraphs) {
    IsGraphCaptureEnabled = Thunk<&Ep::OnIsGraphCaptureEnabled>();
    IsGraphCaptured = Thunk<&Ep::OnIsGraphCaptured>();
    ReplayGraph = Thunk<&Ep::OnReplayGraph>();
    GetGraphCaptureNodeAssignmentPolicy = Thunk<&Ep::OnGetGraphCaptureNodeAssignmentPolicy>();
  }
  if (Host().version >= kApiGraphRelease) ReleaseCapturedGraph = Thunk<&Ep::OnReleaseCapturedGraph>();
}

Status Ep::OnGetCapability(const OrtGraph* graph, OrtEpGraphSupportInfo* support) {
  return capability_.Claim(graph, support, *state_, factory_.ep_name(), logger_);
}

// A refusal is claimed for compilation too (abi/capability.h).
Status Ep::OnCompile(const OrtGraph** graphs, const OrtNode** fused_nodes, size_t count, OrtNodeComputeInfo** infos,
                     OrtNode**) {
  if (!capability_.refusal().ok()) return capability_.refusal();
  device::DeviceGuard guard(state_->ordinal());
  CUDAEP_RETURN_IF_ERROR(guard.status());
  std::vector<Capability::Compiled> reports(count);
  std::vector<std::unique_ptr<RegionNode>> made;
  for (size_t i = 0; i < count; ++i) {
    CUDAEP_ASSIGN_OR_RETURN(graph::Program program, CompileRegion(graphs[i], fused_nodes[i], &reports[i]));
    made.push_back(std::make_unique<RegionNode>(state_, allocators_, std::move(program)));
  }
  CUDAEP_RETURN_IF_ERROR(capability_.Report(reports, *state_, factory_.ep_name()));
  for (size_t i = 0; i < count; ++i) infos[i] = made[i].release();
  return Status::Ok();
}

Result<graph::Program> Ep::CompileRegion(const OrtGraph* fused, const OrtNode* node, Capability::Compiled* report) {
  const Settings& settings = state_->settings();
  CUDAEP_ASSIGN_OR_RETURN(graph::ir::Graph region, ImportRegion(fused, node, capability_.regions(), settings));
  const auto is_used = [](int value) { return value >= 0; };
  const std::vector<int>& outputs = region.nodes.front().outputs;
  if (const auto first = std::ranges::find_if(outputs, is_used); first != outputs.end()) {
    report->first = region.value(*first).name;
  }
  std::vector<graph::FusionNote> notes = graph::RunPasses(region, settings);
  for (const graph::FusionNote& note : notes) Log(LogLevel::kVerbose, graph::Describe(note));
  report->second = graph::ReportOf(region, std::move(notes));
  graph::Program program;
  CUDAEP_RETURN_IF_ERROR(OnOwnStream(state_->memory(), [&](StreamContext& stream) -> Status {
    CUDAEP_ASSIGN_OR_RETURN(program, graph::BuildProgram(std::move(region), settings, weights_, stream));
    return Status::Ok();
  }));
  return program;
}

// A host with a memory budget of its own may drop the node that a refusal is attached to, and then compiles nothing.
Status Ep::OnOnSessionInitializationEnd() const { return capability_.refusal(); }

void Ep::OnReleaseNodeComputeInfos(OrtNodeComputeInfo** infos, size_t count) {
  for (size_t i = 0; i < count; ++i) delete static_cast<RegionNode*>(infos[i]);
}

Status Ep::OnGetKernelRegistry(const OrtKernelRegistry** registry) {
  CUDAEP_ASSIGN_OR_RETURN(*registry, factory_.KernelRegistry());
  return Status::Ok();
}

// The host asks for a session with a memory budget that names no limit.
Status Ep::OnGetAvailableResource(OrtResourceCount* available) const {
  *available = OrtResourceCount::None();
  CUDAEP_ASSIGN_OR_RETURN(const uint64_t bytes, AvailableBytes(*state_));
  *available = OrtResourceCount::FromTotalBytes(bytes);
  return Status::Ok();
}

// Session's own, so that a configuration that differs from the environment's is in force.
Status Ep::OnCreateAllocator(const OrtMemoryInfo* info, OrtAllocator** allocator) {
  *allocator = nullptr;
  CUDAEP_ASSIGN_OR_RETURN(HostAllocator* const made, HostAllocator::Create(*state_->memory(), info, state_->spread()));
  allocators_.Add(made);
  *allocator = made;
  return Status::Ok();
}

Status Ep::OnCreateSyncStreamForDevice(const OrtMemoryDevice*, OrtSyncStreamImpl** stream) {
  auto made = SyncStream::Create(state_, SyncStream::Maker::kSession);
  // The host throws then, and says of no Run that it ends.
  if (!made.ok() && state_->graph_runs() != nullptr) state_->graph_runs()->Abandon();
  CUDAEP_ASSIGN_OR_RETURN(*stream, std::move(made));
  return Status::Ok();
}

// Scratch memory belongs to a stream, so Runs may overlap exactly when each has a stream of its own. The ranks of a
// group must all have the same order of Runs.
Status Ep::OnIsConcurrentRunSupported(bool* supported) {
  *supported = state_->only_stream() == nullptr && state_->settings().group.size <= 1;
  return Status::Ok();
}

// The host does not say that a Run ends which could not begin.
Status Ep::OnOnRunStart(const OrtRunOptions* options) {
  CUDAEP_RETURN_IF_ERROR(CheckNotForked());
  if (GraphRuns* const graphs = state_->graph_runs()) {
    CUDAEP_RETURN_IF_ERROR(graphs->Begin(options, state_->libraries()));
  }
  state_->RunBegins();
  return Status::Ok();
}

Status Ep::OnOnRunEnd(const OrtRunOptions*, bool synchronize) {
  Status group;
  if (state_->communicator() != nullptr) [[unlikely]]
    group = state_->CheckGroup(synchronize);
  SessionState::RunEnds();
  CUDAEP_RETURN_IF_ERROR(std::move(group));
  GraphRuns* const graphs = state_->graph_runs();
  return graphs == nullptr ? Status::Ok() : graphs->End(synchronize);
}

// What is left to the CPU computes shapes; graph/capture_check.h has seen to it.
OrtGraphCaptureNodeAssignmentPolicy Ep::OnGetGraphCaptureNodeAssignmentPolicy() const {
  return OrtGraphCaptureNodeAssignmentPolicy_ALLOW_CPU_FOR_SHAPES;
}

bool Ep::OnIsGraphCaptured(int id) const {
  return state_->graph_runs() != nullptr && state_->graph_runs()->IsCaptured(id);
}

Status Ep::OnReplayGraph(int id) {
  CUDAEP_RETURN_IF_ERROR(CheckNotForked());
  if (state_->graph_runs() == nullptr) return Internal("the host replays a CUDA graph of a session that captures none");
  return state_->graph_runs()->Replay(id);
}

Status Ep::OnReleaseCapturedGraph(int id) {
  return state_->graph_runs() == nullptr ? Status::Ok() : state_->graph_runs()->Release(id);
}

// The host then rewrites claimed nodes to channels-last ones between transposes, and asks for them anew.
Status Ep::OnGetPreferredDataLayout(OrtEpDataLayout* layout) {
  *layout = state_->settings().prefer_nhwc ? OrtEpDataLayout_NHWC : OrtEpDataLayout_NCHW;
  return Status::Ok();
}

// A node that was rewritten must be claimed again: every operator with rows for channels-last images has them for all
// that it has rows for (ops/image_layout.h).
Status Ep::OnShouldConvertDataLayoutForOp(const char* domain, const char* op, OrtEpDataLayout layout,
                                          int* should_convert) {
  *should_convert = layout == OrtEpDataLayout_NHWC && std::string_view(domain) == ops::kOnnxDomain &&
                            capability_.MayTurnChannelsLast(op)
                        ? 1
                        : 0;
  return Status::Ok();
}

Status Ep::OnSync() {
  CUDAEP_RETURN_IF_ERROR(CheckNotForked());
  device::DeviceGuard guard(state_->ordinal());
  CUDAEP_RETURN_IF_ERROR(guard.status());
  return state_->Await();
}

// The host asks once a session, whether it profiles or not, and once more for each Run that is profiled by itself.
Status Ep::OnCreateProfiler(OrtEpProfilerImpl** profiler) {
  *profiler = new EpProfiler(state_);
  return Status::Ok();
}

}  // namespace cudaep::abi
