// device.h: stream capture and graphs.
#include <algorithm>

#include "core/strings.h"
#include "device/sim/simulator.h"

namespace cudaep::device {
namespace sim {

// What makes work of two graphs interchangeable for an update: the kind, and for copies the direction.
static bool SameShape(const GraphNode& a, const GraphNode& b) {
  if (a.work->payload.index() != b.work->payload.index() || a.dependencies != b.dependencies) return false;
  const auto *first = a.work->As<CopyWork>(), *second = b.work->As<CopyWork>();
  return first == nullptr || first->direction == second->direction;
}

// Every node's accesses, each address once: what a launch as a whole touches.
static std::vector<Access> UnionOfAccesses(const GraphBody& body) {
  std::vector<Access> all;
  for (const GraphNode& node : body.nodes) {
    all.insert(all.end(), node.work->accesses.begin(), node.work->accesses.end());
  }
  const auto key = [](const Access& access) { return std::pair(access.begin, access.bytes); };
  std::stable_sort(all.begin(), all.end(), [&](const Access& a, const Access& b) {
    return key(a) != key(b) ? key(a) < key(b) : a.declared > b.declared;
  });
  std::vector<Access> merged;
  for (const Access& access : all) {
    if (merged.empty() || key(merged.back()) != key(access)) {
      merged.push_back(access);
    } else {
      merged.back().write |= access.write;
    }
  }
  return merged;
}

Status Simulator::JoinCapture(StreamHandle* stream, const EventState& event) {
  const auto capture = event.capture;
  if (std::find(captures.begin(), captures.end(), capture.get()) == captures.end()) {
    return FailedPrecondition("a stream waits for an event that was recorded in a capture that has ended");
  }
  if (!capture->invalid.empty()) return capture->InvalidError();
  if (stream->legacy) return capture->Invalidate("the legacy default stream cannot join a capture");
  if (stream->capture != nullptr && stream->capture != capture) {
    stream->capture->Invalidate("two captures were joined by an event").IgnoreError();
    return capture->Invalidate("two captures were joined by an event");
  }
  stream->capture = capture;
  capture->Join(stream, event.nodes);
  return Status::Ok();
}

void Simulator::EndCapture(Capture* capture) {
  std::erase(captures, capture);
  capture->Detach();
}

}  // namespace sim

namespace {

using sim::CallKind;
using sim::Lock;
using sim::Simulator;

template <class Map>
auto Find(Map& map, typename Map::key_type handle, const char* what) -> Result<typename Map::mapped_type::pointer> {
  const auto found = map.find(handle);
  if (found == map.end())
    return InvalidArgument("the ", what, " ", static_cast<const void*>(handle), " does not exist");
  return found->second.get();
}

}  // namespace

Status StreamBeginCapture(Stream stream, CaptureMode mode) {
  Simulator& simulator = Simulator::Get();
  Lock lock = simulator.Acquire();
  CUDAEP_ASSIGN_OR_RETURN(StreamHandle * target, simulator.EnterStream(CallKind::kCapture, stream));
  if (target->legacy) return FailedPrecondition("the legacy default stream cannot be captured");
  if (target->capture != nullptr) return FailedPrecondition("stream ", target->id, " is capturing already");
  auto capture = std::make_shared<sim::Capture>();
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->origin = target;
  capture->body->ordinal = target->ordinal;
  capture->members.push_back(target);
  target->capture = capture;
  target->was_captured = true;
  target->tail.clear();
  simulator.captures.push_back(capture.get());
  return Status::Ok();
}

Status StreamEndCapture(Stream stream, Graph* graph) {
  *graph = nullptr;
  Simulator& simulator = Simulator::Get();
  Lock lock = simulator.Acquire();
  StreamHandle* target = simulator.Lookup(stream);
  if (target == nullptr || target->capture == nullptr) return FailedPrecondition("the stream is not capturing");
  const auto capture = target->capture;
  if (capture->origin != target) {
    return capture->Invalidate(StrCat("the capture was not begun on stream ", target->id, " that should end it"));
  }
  if (capture->mode != CaptureMode::kRelaxed && capture->thread != std::this_thread::get_id()) {
    return FailedPrecondition("a capture that is not relaxed must end on the thread that began it");
  }
  Status status = simulator.Enter(CallKind::kCapture, target->ordinal);
  if (status.ok() && !capture->invalid.empty()) status = capture->InvalidError();
  if (status.ok() && !capture->Joined()) {
    status = FailedPrecondition("the capture ended with work on a forked stream that was not joined by an event");
  }
  simulator.EndCapture(capture.get());
  CUDAEP_RETURN_IF_ERROR(std::move(status));
  auto handle = std::make_unique<GraphHandle>();
  handle->body = capture->body;
  *graph = handle.get();
  simulator.graphs.emplace(handle.get(), std::move(handle));
  return Status::Ok();
}

Status StreamCaptureState(Stream stream, CaptureState* state) {
  Simulator& simulator = Simulator::Get();
  Lock lock = simulator.Acquire();
  const StreamHandle* target = simulator.Lookup(stream);
  if (target == nullptr) return InvalidArgument("the stream ", static_cast<const void*>(stream), " does not exist");
  *state = target->capture == nullptr         ? CaptureState::kNone
           : target->capture->invalid.empty() ? CaptureState::kActive
                                              : CaptureState::kInvalidated;
  return Status::Ok();
}

Status ThreadExchangeCaptureMode(CaptureMode* mode) {
  std::swap(*mode, sim::CurrentThread().capture_mode);
  return Status::Ok();
}

Status GraphInstantiate(GraphExec* exec, Graph graph) {
  *exec = nullptr;
  Simulator& simulator = Simulator::Get();
  Lock lock = simulator.Acquire();
  CUDAEP_ASSIGN_OR_RETURN(GraphHandle * source, Find(simulator.graphs, graph, "graph"));
  CUDAEP_RETURN_IF_ERROR(simulator.Enter(CallKind::kGraphInstantiate, source->body->ordinal));
  auto handle = std::make_unique<GraphExecHandle>();
  handle->body = source->body;
  *exec = handle.get();
  simulator.execs.emplace(handle.get(), std::move(handle));
  return Status::Ok();
}

Status GraphExecUpdate(GraphExec exec, Graph graph) {
  Simulator& simulator = Simulator::Get();
  Lock lock = simulator.Acquire();
  CUDAEP_ASSIGN_OR_RETURN(GraphExecHandle * target, Find(simulator.execs, exec, "graph exec"));
  CUDAEP_ASSIGN_OR_RETURN(GraphHandle * source, Find(simulator.graphs, graph, "graph"));
  CUDAEP_RETURN_IF_ERROR(simulator.Enter(CallKind::kGraphUpdate, source->body->ordinal));
  const auto &before = target->body->nodes, &after = source->body->nodes;
  if (!std::equal(before.begin(), before.end(), after.begin(), after.end(), sim::SameShape)) {
    return FailedPrecondition("the graph's topology differs from that of the exec (", after.size(), " and ",
                              before.size(), " nodes)");
  }
  target->body = source->body;
  return Status::Ok();
}

Status GraphLaunch(GraphExec exec, Stream stream) {
  Simulator& simulator = Simulator::Get();
  Lock lock = simulator.Acquire();
  CUDAEP_ASSIGN_OR_RETURN(StreamHandle * target, simulator.EnterStream(CallKind::kGraphLaunch, stream));
  CUDAEP_ASSIGN_OR_RETURN(GraphExecHandle * source, Find(simulator.execs, exec, "graph exec"));
  const auto body = source->body;
  if (body->ordinal != target->ordinal) {
    return InvalidArgument("a graph of device ", body->ordinal, " cannot run on a stream of device ", target->ordinal);
  }
  return simulator.Submit(lock, target, sim::Work{sim::GraphWork{body}, target->ordinal, sim::UnionOfAccesses(*body)});
}

Status GraphNodeCount(Graph graph, size_t* count) {
  Simulator& simulator = Simulator::Get();
  Lock lock = simulator.Acquire();
  CUDAEP_ASSIGN_OR_RETURN(GraphHandle * source, Find(simulator.graphs, graph, "graph"));
  *count = source->body->nodes.size();
  return Status::Ok();
}

Status GraphDestroy(Graph graph) {
  Simulator& simulator = Simulator::Get();
  Lock lock = simulator.Acquire();
  CUDAEP_RETURN_IF_ERROR(Find(simulator.graphs, graph, "graph").status());
  simulator.graphs.erase(graph);
  return Status::Ok();
}

Status GraphExecDestroy(GraphExec exec) {
  Simulator& simulator = Simulator::Get();
  Lock lock = simulator.Acquire();
  CUDAEP_RETURN_IF_ERROR(Find(simulator.execs, exec, "graph exec").status());
  simulator.execs.erase(exec);
  return Status::Ok();
}

}  // namespace cudaep::device
