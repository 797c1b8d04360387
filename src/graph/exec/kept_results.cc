#include "graph/exec/kept_results.h"

#include "core/log.h"
#include "memory/allocation_label.h"
#include "memory/relaxed_capture.h"

namespace cudaep::graph {
namespace {

// An answer that fails counts as yes: then nothing is queued beside.
bool IsCaptured(const StreamContext& stream) {
  device::CaptureState capture = device::CaptureState::kNone;
  return !device::StreamCaptureState(stream.stream(), &capture).ok() || capture != device::CaptureState::kNone;
}

}  // namespace

KeptResults::~KeptResults() {
  if (memory_ == nullptr) return;
  const memory::RelaxedCapture relaxed;  // a plan may make room for another while the thread captures
  memory_.reset();
  total_->fetch_sub(bytes_);
}

std::byte* KeptResults::For(StreamContext& stream, const Compute& compute) {
  const bool is_graphs = stream.workspace().BelongsToGraph();
  if (!is_graphs && !stream.workspace().IsPlain()) return nullptr;
  if (is_graphs && IsCaptured(stream)) return InCapture();
  State state = state_.load(std::memory_order_acquire);
  if (state == State::kNever || state == State::kBusy) return nullptr;
  if (state == State::kNew) {
    const bool is_first = state_.compare_exchange_strong(state, State::kMet);
    if (!is_graphs || !is_first) return nullptr;
    state = State::kMet;
  }
  if (state == State::kMet) {
    if (wait_.load(std::memory_order_relaxed) > 0) {
      wait_.fetch_sub(1, std::memory_order_relaxed);
      return nullptr;
    }
    if (!state_.compare_exchange_strong(state, State::kBusy)) return nullptr;
    if (!TakeShare(stream)) {
      wait_.store(kCallsBetweenTries, std::memory_order_relaxed);
      state_.store(State::kMet, std::memory_order_release);
      return nullptr;
    }
    if (const Status made = Make(stream, compute); !made.ok()) {
      Log(LogLevel::kVerbose, memory::CurrentLabel(),
          " computes what depends on dimensions alone in every Run: ", made.ToString());
      total_->fetch_sub(bytes_);
      state_.store(State::kNever, std::memory_order_release);
      return nullptr;
    }
    state_.store(State::kQueued, std::memory_order_release);
  } else if (state == State::kQueued && !Await(stream).ok()) {
    return nullptr;
  }
  return static_cast<std::byte*>(memory_.get());
}

// What the graph does not compute is done before it is launched.
std::byte* KeptResults::InCapture() {
  const State state = state_.load(std::memory_order_acquire);
  const bool is_there = state == State::kQueued || state == State::kDone;
  const memory::RelaxedCapture relaxed;  // waiting ends no capture of the thread's
  if (!is_there || !device::EventSynchronize(computed_.get()).ok()) return nullptr;
  return static_cast<std::byte*>(memory_.get());
}

bool KeptResults::TakeShare(StreamContext& stream) {
  const bool fits = total_->fetch_add(bytes_) + bytes_ <= kMostOfRegion;
  if (fits && bytes_ <= stream.memory()->budget().available_bytes() / 4) return true;
  total_->fetch_sub(bytes_);
  return false;
}

// What was queued before an error still writes to the memory: it goes back after that work, as all device memory does.
Status KeptResults::Make(StreamContext& stream, const Compute& compute) {
  const memory::RelaxedCapture relaxed;
  device::UniqueEvent computed;
  CUDAEP_RETURN_IF_ERROR(device::EventCreate(computed.Receive(), device::EventKind::kOrderOnly));
  const std::shared_ptr<memory::Allocator> weights = stream.memory()->weights();
  CUDAEP_ASSIGN_OR_RETURN(void* const block, weights->Reserve(bytes_));
  std::shared_ptr<void> memory(block, [weights](void* pointer) { weights->Free(pointer); });
  CUDAEP_RETURN_IF_ERROR(compute(static_cast<std::byte*>(block)));
  CUDAEP_RETURN_IF_ERROR(device::EventRecord(computed.get(), stream.stream()));
  memory_ = std::move(memory);
  computed_ = std::move(computed);
  return Status::Ok();
}

Status KeptResults::Await(StreamContext& stream) {
  const memory::RelaxedCapture relaxed;  // asking ends no capture of the thread's
  if (device::EventQuery(computed_.get()).ok()) {
    state_.store(State::kDone, std::memory_order_release);
    return Status::Ok();
  }
  return device::StreamWaitEvent(stream.stream(), computed_.get());
}

}  // namespace cudaep::graph
