#include "memory/stream_order.h"

#include <algorithm>
#include <mutex>
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

StreamOrder::Slot StreamOrder::Find(device::Stream stream) const {
  Slot slot = slots() - 1;
  while (slot != kNobody && !(is_used(slot) && lines_[slot]->stream == stream)) --slot;
  return slot;
}

StreamOrder::Slot StreamOrder::Add(device::Stream stream) {
  Slot slot = Find(stream);
  if (slot != kNobody) return slot;
  for (slot = 1; slot < slots() && is_used(slot);) ++slot;
  if (slot == slots()) lines_.push_back(std::make_unique<Line>());
  lines_[slot]->stream = stream;
  lines_[slot]->life = ++last_life_;
  return slot;
}

StreamOrder::Point StreamOrder::Next(Slot slot) {
  Line& line = *lines_[slot];
  const std::lock_guard lock(line.counter.lock());
  return {slot, line.life, line.counter.NextLocked()};
}

std::vector<StreamOrder::Point> StreamOrder::NextOfAll() {
  std::vector<Point> points;
  for (Slot slot = 1; slot < slots(); ++slot) {
    if (is_used(slot)) points.push_back(Next(slot));
  }
  return points;
}

StreamOrder::SharedEvent StreamOrder::Record(device::Stream stream) {
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

void StreamOrder::Settle(Line* line, uint64_t sequence) {
  if (line->life == 0 || sequence <= std::max(line->past, line->events.empty() ? 0 : line->events.back().sequence))
    return;
  line->wanted = std::max(line->wanted, sequence);
  const uint64_t covered = line->counter.points();  // first: frees go on meanwhile
  if (SharedEvent event = Record(line->stream)) line->events.push_back({covered, std::move(event)});
}

void StreamOrder::Settle(const Point& point) {
  if (!IsPast(point) && point.sequence != UINT64_MAX) Settle(lines_[point.slot].get(), point.sequence);
}

void StreamOrder::Settle(const std::vector<Point>& points) {
  for (const Point& point : points) Settle(point);
}

void StreamOrder::Settle(Slot slot) { Settle(lines_[slot].get(), lines_[slot]->counter.points()); }

void StreamOrder::SettleAll() {
  for (Slot slot = 1; slot < slots(); ++slot) Settle(slot);
}

// An event that somebody still waits for must not be recorded again.
void StreamOrder::Advance(Line* line, uint64_t sequence) {
  line->past = std::max(line->past, sequence);
  for (; !line->events.empty() && line->events.front().sequence <= sequence; line->events.pop_front()) {
    SharedEvent& event = line->events.front().event;
    if (event.use_count() == 1 && spare_.size() < kMaxSpareEvents) spare_.push_back(std::move(event));
  }
}

void StreamOrder::Poll() {
  for (const auto& line : lines_) {
    Settle(line.get(), line->wanted);
    while (!line->events.empty()) {
      const Status status = device::EventQuery(line->events.front().event->get());
      // On a lost device nothing runs any more.
      if (!status.ok() && status.code() != StatusCode::kDeviceLost) break;
      Advance(line.get(), line->events.front().sequence);
    }
  }
}

bool StreamOrder::IsPast(const Point& point) const {
  const Line& line = *lines_[point.slot];
  return point.slot == kNobody || line.life != point.life || line.past >= point.sequence;
}

bool StreamOrder::IsPast(const std::vector<Point>& points) const {
  return std::all_of(points.begin(), points.end(), [this](const Point& point) { return IsPast(point); });
}

bool StreamOrder::Order(Slot user, Slot owner) {
  const uint64_t covered = lines_[owner]->counter.points();  // first: frees go on meanwhile
  if (!OrderStreams(lines_[user]->stream, lines_[owner]->stream).ok()) return false;
  std::vector<uint64_t>& waited = lines_[user]->waited;
  if (waited.size() < lines_.size()) waited.resize(lines_.size());
  waited[owner] = covered;
  return true;
}

StreamMark StreamOrder::Mark(device::Stream stream) const {
  const Slot slot = Find(stream);
  if (slot == kNobody) return {.stream = stream};
  const Line& line = *lines_[slot];
  return {.stream = stream, .life = line.life, .points = line.counter.points()};
}

StreamOrder::Slot StreamOrder::Reached(const StreamMark& mark) {
  const Slot slot = Find(mark.stream);
  if (slot == kNobody || lines_[slot]->life != mark.life) return kNobody;
  Advance(lines_[slot].get(), mark.points);
  return slot;
}

// The count goes on, so that what others were made to wait for in this life is done in the next.
void StreamOrder::Release(device::Stream stream) {
  const Slot slot = Find(stream);
  if (slot == kNobody) return;
  Line& line = *lines_[slot];
  Advance(&line, UINT64_MAX);
  line.past = line.wanted = line.counter.points();
  line.waited.clear();
  line.life = 0;
}

std::vector<StreamOrder::SharedEvent> StreamOrder::Pending() const {
  std::vector<SharedEvent> events;
  for (const auto& line : lines_) {
    if (!line->events.empty()) events.push_back(line->events.back().event);
  }
  return events;
}

Status StreamOrder::Wait(const std::vector<SharedEvent>& events) {
  for (const SharedEvent& event : events) CUDAEP_RETURN_IF_ERROR(device::EventSynchronize(event->get()));
  return Status::Ok();
}

Status StreamOrder::OrderStreams(device::Stream later, device::Stream earlier) {
  device::UniqueEvent event;
  CUDAEP_RETURN_IF_ERROR(device::EventCreate(event.Receive(), device::EventKind::kOrderOnly));
  const std::shared_lock lock(RecordMutex());
  if (IsCapturing(earlier)) return FailedPrecondition("the earlier stream is being captured");
  CUDAEP_RETURN_IF_ERROR(device::EventRecord(event.get(), earlier));
  return device::StreamWaitEvent(later, event.get());
}

}  // namespace cudaep::memory
