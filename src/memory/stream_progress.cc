#include "memory/stream_progress.h"

#include <algorithm>
#include <shared_mutex>
#include <utility>

#include "memory/capture_gate.h"

namespace cudaep::memory {
namespace {

constexpr size_t kMaxSpareEvents = 64;

}  // namespace

bool IsCapturing(device::Stream stream) {
  if (stream == nullptr || stream == device::kLegacyStream) return false;  // it cannot be captured
  device::CaptureState state = device::CaptureState::kNone;
  return !device::StreamCaptureState(stream, &state).ok() || state != device::CaptureState::kNone;
}

StreamProgress::Progress& StreamProgress::Find(device::Stream stream) {
  auto [found, inserted] = streams_.try_emplace(stream);
  if (inserted) {
    found->second.stream = stream;
    found->second.number = ++last_number_;
    by_number_.emplace(last_number_, &found->second);
  }
  return found->second;
}

StreamProgress::SharedEvent StreamProgress::Record(device::Stream stream) {
  const std::shared_lock lock(RecordMutex());
  if (IsCapturing(stream)) return nullptr;
  SharedEvent event;
  if (!spare_.empty()) {
    event = std::move(spare_.back());
    spare_.pop_back();
  } else {
    event = std::make_shared<device::UniqueEvent>();
    if (!device::EventCreate(event->Receive(), device::EventKind::kOrderOnly).ok()) return nullptr;
  }
  return device::EventRecord(event->get(), stream).ok() ? event : nullptr;
}

// An event that somebody still waits for must not be recorded again.
void StreamProgress::Recycle(SharedEvent event) {
  if (event != nullptr && event.use_count() == 1 && spare_.size() < kMaxSpareEvents) spare_.push_back(std::move(event));
}

StreamProgress::Point StreamProgress::Mark(device::Stream stream) {
  Progress& progress = Find(stream);
  SharedEvent event = Record(stream);
  if (event != nullptr) DropUnrecorded(&progress);
  progress.entries.push_back({++progress.marked, std::move(event)});
  progress.shares = false;
  return {progress.number, progress.marked};
}

StreamProgress::Point StreamProgress::MarkLater(device::Stream stream) {
  Progress& progress = Find(stream);
  if (!progress.shares || progress.entries.empty()) {
    progress.entries.push_back({++progress.marked, nullptr, true});
    progress.shares = true;
  }
  return {progress.number, progress.marked};
}

std::vector<StreamProgress::Point> StreamProgress::MarkAllLater() {
  std::vector<Point> points;
  points.reserve(streams_.size());
  for (const auto& [stream, progress] : streams_) points.push_back(MarkLater(stream));
  return points;
}

// What is recorded next comes after what these stand for.
void StreamProgress::DropUnrecorded(Progress* progress) {
  while (!progress->entries.empty() && progress->entries.back().event == nullptr) progress->entries.pop_back();
}

void StreamProgress::Settle(Progress* progress) {
  if (progress->entries.empty() || progress->entries.back().event != nullptr) return;
  SharedEvent event = Record(progress->stream);
  if (event == nullptr) return;
  DropUnrecorded(progress);
  progress->entries.push_back({progress->marked, std::move(event)});
  progress->shares = false;
}

void StreamProgress::Settle(const Point& point) {
  const auto found = by_number_.find(point.stream);
  if (found != by_number_.end()) Settle(found->second);
}

void StreamProgress::SettleAll() {
  for (auto& [stream, progress] : streams_) Settle(&progress);
}

std::vector<StreamProgress::Point> StreamProgress::MarkAll() {
  std::vector<Point> points;
  points.reserve(streams_.size());
  for (const auto& [stream, progress] : streams_) points.push_back(Mark(stream));
  return points;
}

void StreamProgress::Poll() {
  for (auto& [stream, progress] : streams_) {
    while (!progress.entries.empty()) {
      Entry& entry = progress.entries.front();
      if (entry.event == nullptr && !entry.later) entry.event = Record(stream);
      if (entry.event == nullptr) break;
      const Status status = device::EventQuery(entry.event->get());
      // On a lost device nothing runs any more.
      if (!status.ok() && status.code() != StatusCode::kDeviceLost) break;
      progress.reached = entry.sequence;
      Recycle(std::move(entry.event));
      progress.entries.pop_front();
    }
  }
}

bool StreamProgress::IsPast(const Point& point) const {
  const auto found = by_number_.find(point.stream);
  return found == by_number_.end() || found->second->reached >= point.sequence;
}

bool StreamProgress::IsPast(const std::vector<Point>& points) const {
  return std::all_of(points.begin(), points.end(), [this](const Point& point) { return IsPast(point); });
}

StreamMark StreamProgress::Now(device::Stream stream) {
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return {.stream = stream};
  found->second.shares = false;  // what is marked from now on is not this mark's
  return {.stream = stream, .life = found->second.number, .events = found->second.marked};
}

bool StreamProgress::Reached(const StreamMark& mark) {
  const auto found = streams_.find(mark.stream);
  if (found == streams_.end() || found->second.number != mark.life) return false;
  Progress& progress = found->second;
  progress.reached = std::max(progress.reached, mark.events);
  while (!progress.entries.empty() && progress.entries.front().sequence <= mark.events) {
    Recycle(std::move(progress.entries.front().event));
    progress.entries.pop_front();
  }
  return true;
}

void StreamProgress::Release(device::Stream stream) {
  Reached(Now(stream));
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return;
  by_number_.erase(found->second.number);
  streams_.erase(found);
}

std::vector<StreamProgress::SharedEvent> StreamProgress::Pending() {
  std::vector<SharedEvent> events;
  for (auto& [stream, progress] : streams_) {
    if (progress.entries.empty()) continue;
    Settle(&progress);
    const Entry& last = progress.entries.back();
    if (last.event != nullptr) events.push_back(last.event);
  }
  return events;
}

Status StreamProgress::Wait(const std::vector<SharedEvent>& events) {
  for (const SharedEvent& event : events) CUDAEP_RETURN_IF_ERROR(device::EventSynchronize(event->get()));
  return Status::Ok();
}

Status StreamProgress::Order(device::Stream later, device::Stream earlier) {
  device::UniqueEvent event;
  CUDAEP_RETURN_IF_ERROR(device::EventCreate(event.Receive(), device::EventKind::kOrderOnly));
  const std::shared_lock lock(RecordMutex());
  if (IsCapturing(earlier)) return FailedPrecondition("the earlier stream is being captured");
  CUDAEP_RETURN_IF_ERROR(device::EventRecord(event.get(), earlier));
  return device::StreamWaitEvent(later, event.get());
}

}  // namespace cudaep::memory
