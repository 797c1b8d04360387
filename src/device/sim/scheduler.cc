// Who runs next, and waiting for it.
#include <algorithm>
#include <new>
#include <utility>

#include "core/strings.h"
#include "device/sim/random.h"
#include "device/sim/simulator.h"

namespace cudaep::device::sim {

namespace {

// How long to wait before shared work is attempted again.
constexpr auto kAttemptInterval = std::chrono::microseconds(100);

bool IsShared(const Work& work) {
  const auto* library = work.As<LibraryWork>();
  return library != nullptr && library->attempt != nullptr;
}

}  // namespace

void Simulator::Enqueue(Lock& lock, StreamHandle* stream, std::shared_ptr<const Work> work, Clock clock) {
  stream->queue.push_back(
      {std::move(work), ++stream->submitted, stream->id, std::move(clock), CurrentThread().activity_scope, calls});
  ++queued_;
  const bool is_shared = IsShared(*stream->queue.back().work);
  if (is_shared) ++shared_;
  if (config.mode == Mode::kEager || is_shared) {
    WakeExecutor();
  } else if (config.mode == Mode::kRandom && NextRandom(&random_) % 4 == 0) {
    Demand demand;
    demand.count = 1 + NextRandom(&random_) % 3;
    Meet(lock, &demand);
  }
  if (stream->queue.size() > config.queue_limit) {
    Demand demand;
    demand.stream = stream;
    demand.sequence = stream->submitted - config.queue_limit / 2;
    Meet(lock, &demand);
  }
}

Status Simulator::WaitFor(Lock& lock, StreamHandle* stream, uint64_t sequence, const Clock& clock) {
  const auto held = stream->shared_from_this();
  if (stream->completed < sequence) {
    Demand demand;
    demand.stream = stream;
    demand.sequence = sequence;
    Meet(lock, &demand);
  }
  host_clock.Join(clock);
  host_clock.Reach(held->slot, sequence);
  std::string& pending = devices[static_cast<size_t>(held->ordinal)].pending_error;
  if (!pending.empty()) {
    MarkLost(held->ordinal, Status(StatusCode::kDeviceError, std::exchange(pending, {})));
  }
  return devices[static_cast<size_t>(held->ordinal)].lost;
}

Status Simulator::WaitForStream(Lock& lock, StreamHandle* stream) {
  return WaitFor(lock, stream, stream->submitted, Clock(stream->clock));
}

Status Simulator::WaitForDevice(Lock& lock, int ordinal) {
  std::vector<std::shared_ptr<StreamHandle>> waited;
  for (const auto& stream : streams_) {
    if (stream->ordinal == ordinal) waited.push_back(stream);
  }
  for (const auto& stream : waited) WaitForStream(lock, stream.get()).IgnoreError();
  return devices[static_cast<size_t>(ordinal)].lost;
}

void Simulator::Nudge(Lock& lock, StreamHandle* stream) {
  if (config.mode == Mode::kEager || PickNeeded(stream) == nullptr) return;
  Demand demand;
  demand.stream = stream;
  demand.sequence = stream->submitted;
  demand.count = 1;
  Meet(lock, &demand);
}

void Simulator::MarkLost(int ordinal, const Status& cause) {
  Device& device = devices[static_cast<size_t>(ordinal)];
  if (!device.lost.ok()) return;
  device.lost = Status(StatusCode::kDeviceLost, StrCat("simulated device ", ordinal, " is lost: ", cause.message()));
}

// Blocks until the demand is met, by the executor thread or, without one, by running work here.
void Simulator::Meet(Lock& lock, Demand* demand) {
  demands_.push_back(demand);
  if (!inline_) {
    WakeExecutor();
    WaitUntil(progress_, lock, [&] { return demand->met || inline_; });
  }
  while (!demand->met) {
    StreamHandle* next = executing_ ? nullptr : Pick();
    if (next != nullptr) {
      RunHead(lock, next);
    } else if (executing_) {
      WaitUntil(progress_, lock, [&] { return demand->met || !executing_; });
    } else if (shared_ != 0) {
      WaitForOthers(progress_, lock);
    } else {
      demand->met = true;  // nothing is left that could meet it
    }
  }
  std::erase(demands_, demand);
}

bool Simulator::IsReady(const StreamHandle& stream) const {
  if (stream.queue.empty()) return false;
  const Work& head = *stream.queue.front().work;
  const auto* wait = head.As<EventWait>();
  if (wait != nullptr) return wait->source->completed >= wait->sequence;
  const bool is_lost = !devices[static_cast<size_t>(stream.ordinal)].lost.ok();
  return is_lost || !IsShared(head) || head.As<LibraryWork>()->attempt();
}

// The stream whose head must run next for `stream` to get on, null where others must do something first. Waits lead to
// earlier calls only, so this ends.
StreamHandle* Simulator::PickNeeded(StreamHandle* stream) {
  while (!stream->queue.empty()) {
    if (IsReady(*stream)) return stream;
    const auto* wait = stream->queue.front().work->As<EventWait>();
    if (wait == nullptr) return nullptr;
    stream = wait->source.get();
  }
  return nullptr;
}

StreamHandle* Simulator::PickShared() {
  if (shared_ == 0) return nullptr;
  for (const auto& stream : streams_) {
    const bool has_any = std::any_of(stream->queue.begin(), stream->queue.end(),
                                     [](const QueuedWork& item) { return IsShared(*item.work); });
    StreamHandle* const next = has_any ? PickNeeded(stream.get()) : nullptr;
    if (next != nullptr) return next;
  }
  return nullptr;
}

StreamHandle* Simulator::PickAny() {
  size_t ready = 0;
  StreamHandle* chosen = nullptr;
  for (const auto& stream : streams_) {
    if (IsReady(*stream) && NextRandom(&random_) % ++ready == 0) chosen = stream.get();
  }
  return chosen;
}

StreamHandle* Simulator::Pick() {
  if (queued_ == 0) return nullptr;
  if (config.mode == Mode::kEager) return PickAny();
  for (Demand* demand : demands_) {
    if (demand->met) continue;
    const bool needed = config.mode == Mode::kLate && demand->stream != nullptr;
    StreamHandle* next = needed ? PickNeeded(demand->stream) : PickAny();
    if (next != nullptr) return next;
    if (demand->stream == nullptr) demand->met = true;  // whoever only queues something waits for no others
  }
  return PickShared();
}

void Simulator::RunHead(Lock& lock, StreamHandle* stream) {
  const auto held = stream->shared_from_this();
  QueuedWork item = std::move(stream->queue.front());
  stream->queue.pop_front();
  --queued_;
  if (IsShared(*item.work)) --shared_;
  executing_ = true;
  const auto ordinal = static_cast<size_t>(stream->ordinal);
  // What is still queued on a lost device never runs.
  if (devices[ordinal].lost.ok()) {
    const auto next = stream->queue.empty() ? nullptr : stream->queue.front().work;
    Status status = Execute(lock, *item.work, item, next);
    if (!status.ok()) MarkLost(stream->ordinal, status);
  }
  executing_ = false;
  stream->completed = item.sequence;
  for (Demand* demand : demands_) {
    if (demand->count != 0 && --demand->count == 0) demand->met = true;
  }
  if (stream->destroyed && stream->queue.empty()) RemoveStream(stream);
  SettleDemands();
}

void Simulator::SettleDemands() {
  bool settled = inline_ || demands_.empty();  // Configure may wait for the end of an operation
  for (Demand* demand : demands_) {
    demand->met =
        demand->met || queued_ == 0 || (demand->stream != nullptr && demand->stream->completed >= demand->sequence);
    settled = settled || demand->met;
  }
  if (settled) progress_.notify_all();
}

void Simulator::WaitForOthers(std::condition_variable& condition, Lock& lock) {
  condition.wait_for(lock, kAttemptInterval);
}

void Simulator::WakeExecutor() {
  if (inline_) return;
  if (!executor_.joinable()) executor_ = std::thread([this] { ExecutorLoop(); });
  if (executor_idle_) wake_.notify_one();
}

void Simulator::ExecutorLoop() {
  Lock lock(mutex_);
  while (!stop_) {
    if (StreamHandle* next = Pick()) {
      RunHead(lock, next);
      continue;
    }
    // Somebody may ask for what has been done in the meantime.
    SettleDemands();
    progress_.notify_all();
    executor_idle_ = true;
    if (shared_ != 0) {
      WaitForOthers(wake_, lock);
    } else {
      WaitOnce(wake_, lock);
    }
    executor_idle_ = false;
  }
}

void Simulator::StopExecutor() {
  {
    Lock lock(mutex_);
    stop_ = true;
    inline_ = true;
    wake_.notify_all();
    progress_.notify_all();
  }
  if (executor_.joinable()) executor_.join();
}

// The child of a fork has no executor thread, and its object must not be joined.
void Simulator::ForgetExecutor() {
  inline_ = true;
  executing_ = false;
  new (&executor_) std::thread;
}

}  // namespace cudaep::device::sim
