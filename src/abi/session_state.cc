#include "abi/session_state.h"

#include <algorithm>

#include "core/strings.h"
#include "memory/capture_gate.h"
#include "memory/memory_registry.h"
#include "runtime/process_group.h"

namespace cudaep::abi {
namespace {

// The handle that stands for another stream on each thread.
const auto kPerThreadStream = reinterpret_cast<void*>(0x2);

// Never destroyed: sessions may end in static destructors.
struct LiveStates {
  std::mutex mutex;
  std::vector<SessionState*> states;
  std::map<std::pair<int, device::Stream>, int> application_streams;  // with the number of objects for each
};
LiveStates& Live() {
  static auto* const live = new LiveStates;
  return *live;
}

// The Run that this thread is in.
struct RunOfThread {
  SessionState* session = nullptr;  // whose Run may have failed, and which may be gone by now
  bool has_begun = false;
  int streams_made = 0;  // before it asked for memory
  bool asked_for_memory = false;
  device::Stream stream = nullptr;  // that was given work last
};
thread_local constinit RunOfThread t_run;

// Any doubt counts as no: the driver then says what is wrong.
bool IsCaptured(device::Stream stream) {
  device::CaptureState capture = device::CaptureState::kNone;
  device::StreamCaptureState(stream, &capture).IgnoreError();
  return capture != device::CaptureState::kNone;
}

device::Stream UserStreamOf(const Settings& settings) {
  auto* stream = static_cast<device::Stream>(settings.user_stream);
  return stream == nullptr ? device::kLegacyStream : stream;
}

Status CheckUserStream(const Settings& settings) {
  if (!settings.has_user_stream || UserStreamOf(settings) == device::kLegacyStream) return Status::Ok();
  const std::string option = StrCat("provider option user_compute_stream=", settings.user_stream);
  if (settings.user_stream == kPerThreadStream) {
    return InvalidArgument(option,
                           " is the per-thread default stream, another one on each thread that runs the session");
  }
  int ordinal = -1;
  CUDAEP_RETURN_IF_ERROR(device::StreamGetDevice(UserStreamOf(settings), &ordinal).WithContext(option));
  if (ordinal == settings.device_ordinal) return Status::Ok();
  return InvalidArgument(option, " is a stream of CUDA ordinal ", ordinal, "; it is used for CUDA ordinal ",
                         settings.device_ordinal);
}

}  // namespace

Result<std::shared_ptr<SessionState>> SessionState::Create(const Settings& settings,
                                                           std::shared_ptr<memory::DeviceMemory> memory,
                                                           bool several_devices) {
  device::DeviceGuard guard(settings.device_ordinal);
  CUDAEP_RETURN_IF_ERROR(guard.status());
  CUDAEP_RETURN_IF_ERROR(CheckUserStream(settings));
  device::UniqueStream unified;
  if (settings.unified_stream && !settings.has_user_stream) {
    const auto kind =
        settings.order_with_legacy_stream ? device::StreamKind::kBlocking : device::StreamKind::kNonBlocking;
    CUDAEP_RETURN_IF_ERROR(device::StreamCreate(unified.Receive(), kind));
  }
  std::shared_ptr<SessionState> state(
      new SessionState(settings, std::move(memory), several_devices, std::move(unified)));
  if (settings.enable_cuda_graph) {
    CUDAEP_ASSIGN_OR_RETURN(state->graph_runs_, GraphRuns::Create(settings, state->memory_, state->only_stream_));
  }
  return state;
}

SessionState::SessionState(const Settings& settings, std::shared_ptr<memory::DeviceMemory> memory, bool several_devices,
                           device::UniqueStream unified)
    : settings_(settings),
      memory_(std::move(memory)),
      several_devices_(several_devices),
      unified_(std::move(unified)),
      only_stream_(settings.has_user_stream ? UserStreamOf(settings) : unified_.get()),
      spread_(std::make_shared<std::atomic<bool>>(false)) {
  memory_->AddSession();
  if (settings_.has_user_stream) memory::BorrowStream(ordinal(), only_stream_);
  if (unified_) memory_->AddStream(only_stream_);
  std::lock_guard lock(Live().mutex);
  Live().states.push_back(this);
}

SessionState::~SessionState() {
  {
    std::lock_guard lock(Live().mutex);
    std::erase(Live().states, this);
  }
  device::DeviceGuard guard(ordinal());
  graph_runs_.reset();
  if (only_stream_ != nullptr) device::StreamSynchronize(only_stream_).IgnoreError();
  foreign_.clear();
  if (settings_.has_user_stream) memory::ReturnStream(ordinal(), only_stream_);
  if (unified_) memory::StreamEnded(ordinal(), only_stream_);
  memory_->RemoveSession();
}

Status SessionState::Need(LibrarySet libraries) {
  libraries_.fetch_or(libraries.bits(), std::memory_order_relaxed);
  if (!libraries.comm || communicator_ != nullptr) return Status::Ok();
  device::DeviceGuard guard(ordinal());
  CUDAEP_RETURN_IF_ERROR(guard.status());
  CUDAEP_ASSIGN_OR_RETURN(communicator_, JoinGroup(settings_.group));
  return Status::Ok();
}

Status SessionState::CheckGroup(bool synchronized) const {
  if (synchronized && !settings_.has_user_stream) CUDAEP_RETURN_IF_ERROR(AwaitRun());
  return communicator_->Check();
}

Result<StreamContext*> SessionState::Adopt(device::Stream stream) {
  std::lock_guard lock(mutex_);
  if (StreamContext* context = streams_.Find(stream)) return context;
  if (IsCaptured(stream)) {  // handles and memory of a stream are not made inside a capture
    return FailedPrecondition("the stream is being captured into a CUDA graph and is new to the session; run the same ",
                              "shapes on it once before the capture");
  }
  auto context = std::make_unique<StreamContext>(memory_, stream);
  CUDAEP_RETURN_IF_ERROR(context->TakeHandles(libraries()));
  context->SetCommunicator(communicator());
  if (stream != unified_.get()) {  // whoever made the stream may capture it
    memory_->ExpectCaptures(stream);
    context->workspace().ExpectCaptures();
  }
  CUDAEP_RETURN_IF_ERROR(streams_.Add(context.get()));
  foreign_.push_back(std::move(context));
  return foreign_.back().get();
}

bool SessionState::IsApplications(device::Stream stream) {
  if (stream == only_stream_) return false;
  std::lock_guard lock(mutex_);
  return streams_.Find(stream) == nullptr || std::any_of(foreign_.begin(), foreign_.end(), [&](const auto& context) {
           return context->stream() == stream;
         });
}

Result<StreamContext*> SessionState::ContextInGraph(device::Stream stream) {
  if (!graph_runs_->IsRunHere()) return ContextOf(stream);
  return graph_runs_->Enter(graph_runs_->IsFirstNode() && IsApplications(stream));
}

std::unique_ptr<StreamContext> SessionState::Forget(device::Stream stream) {
  std::lock_guard lock(mutex_);
  const auto found =
      std::find_if(foreign_.begin(), foreign_.end(), [&](const auto& context) { return context->stream() == stream; });
  if (found == foreign_.end()) return nullptr;
  streams_.Remove(found->get());
  std::unique_ptr<StreamContext> forgotten = std::move(*found);
  foreign_.erase(found);
  return forgotten;
}

void SessionState::StreamMade() {
  if (t_run.session != this) t_run = {.session = this};  // some hosts make a Run's streams before they say it begins
  if (!t_run.asked_for_memory && ++t_run.streams_made > 1) spread_->store(true);
}

void SessionState::RunBegins() { t_run = {.session = this, .has_begun = true}; }
void SessionState::RunEnds() { t_run = {}; }
bool SessionState::IsInRun() { return t_run.has_begun; }
void SessionState::RunAsksForMemory() { t_run.asked_for_memory = true; }
void SessionState::RunWorksOn(device::Stream stream) { t_run.stream = stream; }

void SessionState::ConstantSeen(const std::string& name, bool read_once) {
  if (read_once) {
    read_once_.insert(name);
  } else {
    read_once_.erase(name);
  }
}

Status SessionState::Await() const {
  if (only_stream_ != nullptr) return device::StreamSynchronize(only_stream_);
  return memory::SynchronizeDevice();
}

Status SessionState::AwaitRun() {
  if (t_run.stream == nullptr) return Status::Ok();
  {
    std::lock_guard lock(Live().mutex);
    const auto& states = Live().states;
    if (std::none_of(states.begin(), states.end(),
                     [](SessionState* state) { return state->streams_.Find(t_run.stream) != nullptr; })) {
      return Status::Ok();
    }
  }
  if (IsCaptured(t_run.stream)) {
    return FailedPrecondition("the host waits for the Run's stream, which is being captured into a CUDA graph");
  }
  return device::StreamSynchronize(t_run.stream);
}

std::map<int, SessionState::Counts> SessionState::CountLive() {
  std::map<int, Counts> found;
  std::lock_guard lock(Live().mutex);
  for (SessionState* state : Live().states) {
    Counts& counts = found[state->ordinal()];
    counts.sessions += state->has_session_.load(std::memory_order_relaxed) ? 1 : 0;
    counts.regions += state->regions_.load(std::memory_order_relaxed);
    const std::vector<device::Stream> streams = state->streams_.Streams();
    counts.streams.insert(streams.begin(), streams.end());
  }
  return found;
}

void SessionState::ApplicationHas(int ordinal, device::Stream stream) {
  std::lock_guard lock(Live().mutex);
  ++Live().application_streams[{ordinal, stream}];
}

void SessionState::ApplicationReleases(int ordinal, device::Stream stream) {
  std::vector<std::unique_ptr<StreamContext>> forgotten;  // outlives the lock
  std::lock_guard lock(Live().mutex);
  const auto found = Live().application_streams.find({ordinal, stream});
  if (found == Live().application_streams.end() || --found->second > 0) return;
  Live().application_streams.erase(found);
  for (SessionState* state : Live().states) {
    // A session whose own stream it is goes on with it.
    if (state->ordinal() == ordinal && state->only_stream() != stream) forgotten.push_back(state->Forget(stream));
  }
}

}  // namespace cudaep::abi
