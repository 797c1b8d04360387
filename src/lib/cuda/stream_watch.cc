#include "lib/cuda/stream_watch.h"

#include "core/condition.h"

namespace cudaep::comm {
namespace {

constexpr auto kInterval = std::chrono::milliseconds(100);

}  // namespace

StreamWatch::StreamWatch(int ordinal, std::chrono::seconds limit, std::function<void(const std::string&)> late,
                         std::function<bool()> look)
    : ordinal_(ordinal), limit_(limit), late_(std::move(late)), look_(std::move(look)) {}

StreamWatch::~StreamWatch() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Status StreamWatch::Add(std::string title, device::Stream stream) {
  device::UniqueEvent event;
  {
    const std::lock_guard lock(mutex_);
    DropDone();  // so that a busy stream needs no more events than it has operations queued
    if (!idle_.empty()) {
      event = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  if (!event) CUDAEP_RETURN_IF_ERROR(device::EventCreate(event.Receive(), device::EventKind::kOrderOnly));
  CUDAEP_RETURN_IF_ERROR(device::EventRecord(event.get(), stream));
  const std::lock_guard lock(mutex_);
  pending_.push_back({std::move(title), std::move(event), std::chrono::steady_clock::now() + limit_});
  if (!thread_.joinable()) thread_ = std::thread([this] { Loop(); });
  if (pending_.size() == 1) changed_.notify_all();
  return Status::Ok();
}

void StreamWatch::DropDone() {
  while (!pending_.empty() && device::EventQuery(pending_.front().event.get()).ok()) {
    idle_.push_back(std::move(pending_.front().event));
    pending_.pop_front();
  }
}

void StreamWatch::Loop() {
  const device::DeviceGuard guard(ordinal_);
  auto relaxed = device::CaptureMode::kRelaxed;  // a query must not end a capture elsewhere in the process
  device::ThreadExchangeCaptureMode(&relaxed).IgnoreError();
  std::unique_lock lock(mutex_);
  while (true) {
    WaitUntil(changed_, lock, [this] { return stop_ || !pending_.empty(); });
    if (stop_) return;
    DropDone();
    const bool is_late = !pending_.empty() && std::chrono::steady_clock::now() >= pending_.front().end;
    const std::string title = is_late ? pending_.front().title : std::string();
    const bool waits = !pending_.empty();
    lock.unlock();
    if (is_late) return late_(title);
    if (waits && !look_()) return;
    lock.lock();
    if (!stop_) changed_.wait_for(lock, kInterval);
  }
}

}  // namespace cudaep::comm
