#include "runtime/device_graph.h"

#include <exception>
#include <utility>

#include "core/strings.h"
#include "memory/memory_registry.h"
#include "memory/relaxed_capture.h"
#include "runtime/plan_store.h"
#include "runtime/profiler.h"

namespace cudaep {

Status DeviceGraph::Prepare(const Setup& setup) {
  if (memory_ != nullptr) return Status::Ok();
  const int ordinal = setup.memory->config().ordinal;
  CUDAEP_RETURN_IF_ERROR(device::EventCreate(event_.Receive(), device::EventKind::kOrderOnly));
  CUDAEP_RETURN_IF_ERROR(device::StreamCreate(stream_.Receive()));
  launch_stream_ = setup.only_stream != nullptr ? setup.only_stream : stream_.get();
  memory_ = setup.memory;
  if (setup.order_with_legacy_stream && setup.only_stream == nullptr) {
    CUDAEP_RETURN_IF_ERROR(device::StreamCreate(ordered_stream_.Receive(), device::StreamKind::kBlocking));
    launch_stream_ = ordered_stream_.get();
  }
  CUDAEP_RETURN_IF_ERROR(memory_->BelongToGraph(stream_.get()));
  context_.emplace(memory_, stream_.get());
  context_->workspace().BelongToGraph();
  warm_up_runs_ = setup.warm_up_runs;
  runs_ = 0;
  CUDAEP_RETURN_IF_ERROR(context_->TakeHandles(setup.libraries).WithContext(StrCat("CUDA device ", ordinal)));
  return Status::Ok();
}

Status DeviceGraph::CheckLaunchStream() const {
  if (!IsApart()) return Status::Ok();
  device::CaptureState capture = device::CaptureState::kNone;
  CUDAEP_RETURN_IF_ERROR(device::StreamCaptureState(launch_stream_, &capture));
  if (capture == device::CaptureState::kNone) return Status::Ok();
  return FailedPrecondition(
      "the session's stream is being captured by the application, and enable_cuda_graph=1 captures Runs by itself; ",
      "run with gpu_graph_id=-1 to take part in the application's capture");
}

Status DeviceGraph::Begin(const Setup& setup) {
  device::DeviceGuard guard(setup.memory->config().ordinal);
  CUDAEP_RETURN_IF_ERROR(guard.status());
  const memory::RelaxedCapture relaxed;  // making streams and handles ends no capture of the application's
  Status status = Prepare(setup);
  if (status.ok()) status = CheckLaunchStream();
  if (!status.ok()) {
    if (!captured()) Drop();
    return status;
  }
  entered_ = false;
  phase_ = captured() ? Phase::kBeside : runs_ == warm_up_runs_ ? Phase::kCapture : Phase::kWarmUp;
  runner_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  return Status::Ok();
}

// Through the event; both are streams of the graph's device and neither is captured.
Status DeviceGraph::Order(device::Stream later, device::Stream earlier) {
  CUDAEP_RETURN_IF_ERROR(device::EventRecord(event_.get(), earlier));
  return device::StreamWaitEvent(later, event_.get());
}

// The graph keeps the plans that it is captured with, so those in the making are waited for.
Status DeviceGraph::BeginCapture() {
  PlanStore::Process().WaitForBackground();
  replayed_ = std::make_shared<ReplayedNodes>();
  plans_.emplace();
  CUDAEP_RETURN_IF_ERROR(capture_.Begin(stream_.get()));
  context_->SetCapturedNodes(replayed_.get());
  return Status::Ok();
}

Result<StreamContext*> DeviceGraph::Enter() {
  if (entered_) return &*context_;
  if (phase_ == Phase::kCapture) {
    CUDAEP_RETURN_IF_ERROR(BeginCapture());
  } else if (IsApart()) {
    CUDAEP_RETURN_IF_ERROR(Order(stream_.get(), launch_stream_));
  }
  entered_ = true;
  return &*context_;
}

void DeviceGraph::Hold(const void* plan) {
  if (capture_.is_on()) plans_->Hold(plan);
}

void DeviceGraph::NodeQueued(const ModelNode& node) {
  if (capture_.is_on()) replayed_->NodeQueued(stream_.get(), node);
}

// The capture ends in any case.
Status DeviceGraph::FinishCapture(const Status& outcome) {
  device::UniqueGraph graph;
  context_->SetCapturedNodes(nullptr);
  Status ended = capture_.End(graph.Receive());
  CUDAEP_RETURN_IF_ERROR(outcome);
  CUDAEP_RETURN_IF_ERROR(std::move(ended).WithContext("the capture of the Run into a CUDA graph"));
  replayed_->End(graph.get());
  return exec_.Make(GraphKind::kRuns, graph.get(), memory_);
}

Status DeviceGraph::Launch() {
  const profile::ReplayScope scope(replayed_);
  return exec_.Launch(launch_stream_);
}

// The caller may capture its stream later, so that it could not be waited for itself.
Status DeviceGraph::MarkLast() {
  launched_ = true;
  return IsApart() ? device::EventRecord(event_.get(), launch_stream_) : Status::Ok();
}

Status DeviceGraph::Await() {
  CUDAEP_RETURN_IF_ERROR(IsApart() ? device::EventSynchronize(event_.get()) : device::StreamSynchronize(stream_.get()));
  launched_ = false;
  return Status::Ok();
}

void DeviceGraph::GiveUp() {
  device::DeviceGuard guard(memory_->config().ordinal);
  const memory::RelaxedCapture relaxed;
  if (capture_.is_on()) {
    device::UniqueGraph graph;
    capture_.End(graph.Receive()).IgnoreError();
  }
  runner_.store({}, std::memory_order_relaxed);
  if (phase_ == Phase::kBeside) {
    device::StreamSynchronize(stream_.get()).IgnoreError();  // for what was queued of it
  } else {
    memory::SynchronizeDevice().IgnoreError();  // nodes on other threads may use what this gives away
    Drop();
  }
}

// Gives the Run up where host memory runs out at its end.
class DeviceGraph::Unwinding {
 public:
  explicit Unwinding(DeviceGraph& graph) : graph_(graph), exceptions_(std::uncaught_exceptions()) {}
  ~Unwinding() {
    if (std::uncaught_exceptions() != exceptions_) graph_.GiveUp();
  }
  Unwinding(const Unwinding&) = delete;
  Unwinding& operator=(const Unwinding&) = delete;

 private:
  DeviceGraph& graph_;
  const int exceptions_;
};

Status DeviceGraph::End(Status outcome, bool synchronize) {
  const Unwinding unwinding(*this);
  device::DeviceGuard guard(memory_->config().ordinal);
  const memory::RelaxedCapture relaxed;
  Status status = capture_.is_on() ? FinishCapture(outcome) : std::move(outcome);
  if (status.ok()) status = guard.status();
  // What the Run's memory was ordered after is ordered before the first launch too.
  if (status.ok() && IsApart()) status = Order(launch_stream_, stream_.get());
  if (status.ok() && phase_ == Phase::kCapture) status = Launch();
  if (status.ok()) status = MarkLast();
  if (status.ok() && synchronize) status = Await();
  if (!status.ok()) {
    GiveUp();
    return status;
  }
  runner_.store({}, std::memory_order_relaxed);
  if (synchronize) context_->workspace().DropOutgrown();
  if (phase_ == Phase::kWarmUp) ++runs_;
  if (phase_ != Phase::kCapture) return Status::Ok();
  synchronize_ = synchronize;
  captured_.store(true, std::memory_order_release);
  return Status::Ok();
}

Status DeviceGraph::Replay() {
  if (!exec_) return Status::Ok();
  device::DeviceGuard guard(memory_->config().ordinal);
  CUDAEP_RETURN_IF_ERROR(guard.status());
  CUDAEP_RETURN_IF_ERROR(CheckLaunchStream());
  CUDAEP_RETURN_IF_ERROR(Launch());
  CUDAEP_RETURN_IF_ERROR(MarkLast());
  if (!synchronize_) return Status::Ok();
  const memory::RelaxedCapture relaxed;  // waiting here ends no capture of the thread's
  return Await();
}

// Waits for what is queued.
void DeviceGraph::Drop() {
  captured_.store(false, std::memory_order_release);
  runner_.store({}, std::memory_order_relaxed);
  if (memory_ == nullptr) return;
  const int ordinal = memory_->config().ordinal;
  device::DeviceGuard guard(ordinal);
  const memory::RelaxedCapture relaxed;
  if (launched_ && IsApart()) device::EventSynchronize(event_.get()).IgnoreError();
  launched_ = false;
  if (stream_) device::StreamSynchronize(stream_.get()).IgnoreError();
  exec_.Reset();
  plans_.reset();
  replayed_.reset();
  context_.reset();
  if (stream_) memory::StreamEnded(ordinal, stream_.get());
  stream_.Reset();
  ordered_stream_.Reset();
  memory_.reset();
}

}  // namespace cudaep
