#include "runtime/operator_graphs.h"

#include <utility>

#include "core/log.h"
#include "memory/allocation_label.h"
#include "memory/relaxed_capture.h"

namespace cudaep {
namespace {

uint64_t NewNumber() {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace

uint64_t OperatorGraphs::NewPlan() { return NewNumber(); }

OperatorGraphs::OperatorGraphs(LibrarySet libraries) : id_(NewNumber()), libraries_(libraries) {}

OperatorGraphs::~OperatorGraphs() {
  std::lock_guard lock(mutex_);
  for (const std::weak_ptr<CallGraphs>& stream : streams_) {
    if (const std::shared_ptr<CallGraphs> graphs = stream.lock()) graphs->Drop();
  }
}

CallGraphs* OperatorGraphs::AddTo(StreamContext& stream) {
  std::lock_guard lock(mutex_);
  std::erase_if(streams_, [](const auto& gone) { return gone.expired(); });
  streams_.reserve(streams_.size() + 1);
  const std::shared_ptr<CallGraphs> graphs = stream.graphs().Add(id_);
  streams_.push_back(graphs);
  return graphs.get();
}

bool OperatorGraphs::LaunchNew(StreamContext& stream, CallGraphs* graphs, const GraphCall& call,
                               const std::shared_ptr<const void>& kept, const QueueFunction& queue) {
  if (graphs == nullptr) graphs = AddTo(stream);
  if (!graphs->IsWorthCapturing(call)) return false;
  LaunchableGraph graph;
  if (Status captured = Capture(stream, &graph, queue); !captured.ok()) {
    Failed(*graphs, captured);
    return false;
  }
  graphs->Add(call, std::move(graph), kept);
  const Result<bool> launched = graphs->Launch(call, stream.stream());
  if (!launched.ok()) Failed(*graphs, launched.status());
  return launched.ok();
}

// What makes handles, streams and graphs ends no capture of the application's, on this thread either.
Status OperatorGraphs::Capture(StreamContext& stream, LaunchableGraph* graph, const QueueFunction& queue) const {
  StreamContext* on = nullptr;
  {
    const memory::RelaxedCapture relaxed;
    CUDAEP_ASSIGN_OR_RETURN(on, stream.graphs().CaptureContext(stream, libraries_));
  }
  GraphCapture capture;
  CUDAEP_RETURN_IF_ERROR(capture.Begin(on->stream()));
  Status queued = queue(*on);
  const memory::RelaxedCapture relaxed;
  device::UniqueGraph captured;
  Status ended = capture.End(captured.Receive());
  CUDAEP_RETURN_IF_ERROR(std::move(queued));
  CUDAEP_RETURN_IF_ERROR(std::move(ended));
  return graph->Make(GraphKind::kCalls, captured.get(), stream.memory());
}

void OperatorGraphs::Failed(CallGraphs& graphs, const Status& why) {
  graphs.Failed();
  if (has_warned_.exchange(true, std::memory_order_relaxed)) return;
  const char* const label = memory::CurrentLabel();
  Log(LogLevel::kWarning, label == nullptr ? "an operator" : label,
      " is launched kernel by kernel, without a CUDA graph for now: ", why.ToString());
}

}  // namespace cudaep
