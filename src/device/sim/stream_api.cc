// device.h: streams, events and host callbacks.
#include "core/strings.h"
#include "device/sim/simulator.h"

namespace cudaep::device {
namespace {

using sim::CallKind;
using sim::Lock;
using sim::Simulator;

Result<EventHandle*> FindEvent(Simulator& simulator, Event event) {
  const auto found = simulator.events.find(event);
  if (found == simulator.events.end()) {
    return InvalidArgument("the event ", static_cast<const void*>(event), " does not exist");
  }
  return found->second.get();
}

// Events recorded into a capture stand for graph nodes: nobody can wait for them or ask about them.
Status CheckNotCaptured(const sim::EventState& state, const char* call) {
  if (state.capture == nullptr) return Status::Ok();
  state.capture->Invalidate(StrCat(call, " of an event that was recorded into the capture")).IgnoreError();
  return FailedPrecondition(call, " of an event that was recorded in a stream capture");
}

Status CheckNotCapturing(StreamHandle* stream, const char* call) {
  if (stream->capture == nullptr) return Status::Ok();
  return stream->capture->Invalidate(StrCat(call, " of a stream that is capturing"));
}

bool Reached(const sim::EventState& state) {
  return state.source == nullptr || state.source->completed >= state.sequence;
}

}  // namespace

Status StreamCreate(Stream* stream, StreamKind kind) {
  *stream = nullptr;
  Simulator& simulator = Simulator::Get();
  Lock lock = simulator.Acquire();
  int ordinal = 0;
  CUDAEP_RETURN_IF_ERROR(simulator.CurrentDevice(&ordinal));
  CUDAEP_RETURN_IF_ERROR(simulator.Enter(CallKind::kStreamCreate, ordinal));
  StreamHandle* const created = simulator.AddStream(ordinal);
  created->blocking = kind == StreamKind::kBlocking;
  *stream = created;
  return Status::Ok();
}

Status StreamDestroy(Stream stream) {
  Simulator& simulator = Simulator::Get();
  Lock lock = simulator.Acquire();
  StreamHandle* target = simulator.Lookup(stream);
  if (target == nullptr || target->legacy) {
    return InvalidArgument("the stream ", static_cast<const void*>(stream), " cannot be destroyed");
  }
  Status status = simulator.Enter(CallKind::kOther, target->ordinal);
  simulator.DestroyStream(lock, target);
  return status;
}

Status StreamSynchronize(Stream stream) {
  Simulator& simulator = Simulator::Get();
  Lock lock = simulator.Acquire();
  CUDAEP_ASSIGN_OR_RETURN(StreamHandle * target, simulator.EnterStream(CallKind::kSynchronize, stream));
  CUDAEP_RETURN_IF_ERROR(CheckNotCapturing(target, "synchronisation"));
  CUDAEP_RETURN_IF_ERROR(simulator.CheckCaptures("synchronisation of a stream"));
  ++target->counters.stream_syncs;
  const int ordinal = target->ordinal;
  ++simulator.devices[static_cast<size_t>(ordinal)].counters.stream_syncs;
  CUDAEP_RETURN_IF_ERROR(simulator.WaitForStream(lock, target));
  simulator.ReleaseUnusedPoolMemory(ordinal);
  return simulator.CheckAllRedZones(ordinal);
}

Status StreamQuery(Stream stream) {
  Simulator& simulator = Simulator::Get();
  Lock lock = simulator.Acquire();
  CUDAEP_ASSIGN_OR_RETURN(StreamHandle * target, simulator.EnterStream(CallKind::kQuery, stream));
  CUDAEP_RETURN_IF_ERROR(CheckNotCapturing(target, "query"));
  CUDAEP_RETURN_IF_ERROR(simulator.CheckCaptures("query of a stream"));
  ++simulator.devices[static_cast<size_t>(target->ordinal)].counters.queries;
  if (target->completed >= target->submitted) return simulator.WaitForStream(lock, target);
  simulator.Nudge(lock, target);
  return Status(StatusCode::kNotReady, StrCat("stream ", target->id, " still has work"));
}

Status StreamWaitEvent(Stream stream, Event event) {
  Simulator& simulator = Simulator::Get();
  Lock lock = simulator.Acquire();
  CUDAEP_ASSIGN_OR_RETURN(StreamHandle * target, simulator.EnterStream(CallKind::kEventWait, stream));
  CUDAEP_ASSIGN_OR_RETURN(EventHandle * handle, FindEvent(simulator, event));
  const sim::EventState& state = *handle->state;
  if (state.source == nullptr) return Status::Ok();  // never recorded: nothing to wait for
  if (state.capture != nullptr) return simulator.JoinCapture(target, state);
  if (target->capture != nullptr) {
    return target->capture->Invalidate("a capturing stream waits for an event recorded outside of the capture");
  }
  target->clock.Join(state.clock);
  target->clock.Reach(state.source->slot, state.sequence);
  if (Reached(state) || state.source.get() == target) return Status::Ok();
  return simulator.Submit(lock, target, sim::Work{sim::EventWait{state.source, state.sequence}, target->ordinal, {}});
}

Status StreamGetDevice(Stream stream, int* ordinal) {
  Simulator& simulator = Simulator::Get();
  Lock lock = simulator.Acquire();
  const StreamHandle* target = simulator.Lookup(stream);
  if (target == nullptr) return InvalidArgument("the stream ", static_cast<const void*>(stream), " does not exist");
  *ordinal = target->ordinal;
  return Status::Ok();
}

Status LaunchHostFunc(Stream stream, HostFunction function, void* state) {
  Simulator& simulator = Simulator::Get();
  Lock lock = simulator.Acquire();
  CUDAEP_ASSIGN_OR_RETURN(StreamHandle * target, simulator.EnterStream(CallKind::kHostCallback, stream));
  return simulator.Submit(lock, target, sim::Work{sim::CallbackWork{function, state}, target->ordinal, {}});
}

Status EventCreate(Event* event, EventKind kind) {
  *event = nullptr;
  Simulator& simulator = Simulator::Get();
  Lock lock = simulator.Acquire();
  int ordinal = 0;
  CUDAEP_RETURN_IF_ERROR(simulator.CurrentDevice(&ordinal));
  CUDAEP_RETURN_IF_ERROR(simulator.Enter(CallKind::kEventCreate, ordinal));
  auto handle = std::make_unique<EventHandle>();
  handle->ordinal = ordinal;
  handle->state = std::make_shared<sim::EventState>();
  handle->state->timing = kind == EventKind::kTiming;
  *event = handle.get();
  simulator.events.emplace(handle.get(), std::move(handle));
  return Status::Ok();
}

Status EventDestroy(Event event) {
  Simulator& simulator = Simulator::Get();
  Lock lock = simulator.Acquire();
  CUDAEP_ASSIGN_OR_RETURN(EventHandle * handle, FindEvent(simulator, event));
  Status status = simulator.Enter(CallKind::kOther, handle->ordinal);
  simulator.events.erase(event);
  return status;
}

Status EventRecord(Event event, Stream stream) {
  Simulator& simulator = Simulator::Get();
  Lock lock = simulator.Acquire();
  CUDAEP_ASSIGN_OR_RETURN(StreamHandle * target, simulator.EnterStream(CallKind::kEventRecord, stream));
  CUDAEP_ASSIGN_OR_RETURN(EventHandle * handle, FindEvent(simulator, event));
  if (handle->ordinal != target->ordinal) {
    return InvalidArgument("an event of device ", handle->ordinal, " cannot be recorded on a stream of device ",
                           target->ordinal);
  }
  sim::EventState& state = *handle->state;
  const sim::EventState before = state;
  ++state.generation;
  state.source = target->shared_from_this();
  state.capture = target->capture;
  state.nodes = target->tail;
  if (target->capture != nullptr) {
    return target->capture->invalid.empty() ? Status::Ok() : target->capture->InvalidError();
  }
  state.sequence = target->submitted + 1;
  state.clock = target->clock;
  Status status =
      simulator.Submit(lock, target, sim::Work{sim::EventMark{handle->state, state.generation}, target->ordinal, {}});
  if (!status.ok()) state = before;
  return status;
}

Status EventQuery(Event event) {
  Simulator& simulator = Simulator::Get();
  Lock lock = simulator.Acquire();
  CUDAEP_ASSIGN_OR_RETURN(EventHandle * handle, FindEvent(simulator, event));
  CUDAEP_RETURN_IF_ERROR(simulator.Enter(CallKind::kQuery, handle->ordinal));
  const auto state = handle->state;
  CUDAEP_RETURN_IF_ERROR(CheckNotCaptured(*state, "query"));
  CUDAEP_RETURN_IF_ERROR(simulator.CheckCaptures("query of an event"));
  ++simulator.devices[static_cast<size_t>(handle->ordinal)].counters.queries;
  if (state->source == nullptr) return Status::Ok();
  if (Reached(*state)) return simulator.WaitFor(lock, state->source.get(), state->sequence, sim::Clock(state->clock));
  const auto source = state->source;
  simulator.Nudge(lock, source.get());
  return Status(StatusCode::kNotReady, "the event has not been reached");
}

Status EventSynchronize(Event event) {
  Simulator& simulator = Simulator::Get();
  Lock lock = simulator.Acquire();
  CUDAEP_ASSIGN_OR_RETURN(EventHandle * handle, FindEvent(simulator, event));
  CUDAEP_RETURN_IF_ERROR(simulator.Enter(CallKind::kSynchronize, handle->ordinal));
  const auto state = handle->state;
  CUDAEP_RETURN_IF_ERROR(CheckNotCaptured(*state, "synchronisation"));
  CUDAEP_RETURN_IF_ERROR(simulator.CheckCaptures("synchronisation of an event"));
  const int ordinal = handle->ordinal;
  ++simulator.devices[static_cast<size_t>(ordinal)].counters.event_syncs;
  if (state->source == nullptr) return Status::Ok();
  const auto source = state->source;
  CUDAEP_RETURN_IF_ERROR(simulator.WaitFor(lock, source.get(), state->sequence, sim::Clock(state->clock)));
  simulator.ReleaseUnusedPoolMemory(ordinal);
  return simulator.CheckAllRedZones(ordinal);
}

Status EventElapsedMs(float* milliseconds, Event begin, Event end) {
  Simulator& simulator = Simulator::Get();
  Lock lock = simulator.Acquire();
  CUDAEP_ASSIGN_OR_RETURN(EventHandle * first, FindEvent(simulator, begin));
  CUDAEP_ASSIGN_OR_RETURN(EventHandle * last, FindEvent(simulator, end));
  CUDAEP_RETURN_IF_ERROR(simulator.Enter(CallKind::kQuery, first->ordinal));
  for (const EventHandle* handle : {first, last}) {
    const sim::EventState& state = *handle->state;
    CUDAEP_RETURN_IF_ERROR(CheckNotCaptured(state, "timing"));
    if (!state.timing || state.source == nullptr)
      return InvalidArgument("timing needs recorded events of kind kTiming");
    if (!Reached(state)) return Status(StatusCode::kNotReady, "an event of the timing has not been reached");
  }
  *milliseconds = std::chrono::duration<float, std::milli>(last->state->reached - first->state->reached).count();
  return Status::Ok();
}

}  // namespace cudaep::device
