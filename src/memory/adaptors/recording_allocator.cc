#include "memory/adaptors/recording_allocator.h"

#include "core/log.h"
#include "core/strings.h"

namespace cudaep::memory {

Result<std::shared_ptr<Allocator>> RecordingAllocator::Create(std::shared_ptr<Allocator> inner,
                                                              const std::string& path) {
  std::ofstream file(path);
  file << "# a ID BYTES LANE: memory on a stream (- for none)   f ID: freed   i LANE: the stream was waited for\n";
  if (!file.flush()) return InvalidArgument("the record of allocations ", path, " cannot be written");
  return std::shared_ptr<Allocator>(std::make_shared<RecordingAllocator>(std::move(inner), path, std::move(file)));
}

RecordingAllocator::~RecordingAllocator() {
  if (!file_.flush()) Log(LogLevel::kWarning, StrCat("the record of allocations ", path_, " could not be written"));
}

uint32_t RecordingAllocator::LaneOf(device::Stream stream) {
  return lanes_.try_emplace(stream, static_cast<uint32_t>(lanes_.size())).first->second;
}

void RecordingAllocator::Note(void* pointer, size_t bytes, const std::string& lane) {
  uint32_t id = static_cast<uint32_t>(live_.size() + spare_.size());
  if (!spare_.empty()) {
    id = spare_.back();
    spare_.pop_back();
  }
  live_[pointer] = id;
  file_ << "a " << id << ' ' << bytes << ' ' << lane << '\n';
}

Result<void*> RecordingAllocator::Allocate(size_t bytes) {
  std::lock_guard lock(mutex_);
  Result<void*> pointer = ForwardingAllocator::Allocate(bytes);
  if (pointer.ok() && *pointer != nullptr) Note(*pointer, bytes, "-");
  return pointer;
}

Result<void*> RecordingAllocator::AllocateOnStream(size_t bytes, device::Stream stream) {
  std::lock_guard lock(mutex_);
  Result<void*> pointer = ForwardingAllocator::AllocateOnStream(bytes, stream);
  if (pointer.ok() && *pointer != nullptr) Note(*pointer, bytes, std::to_string(LaneOf(stream)));
  return pointer;
}

void RecordingAllocator::Free(void* pointer) {
  std::lock_guard lock(mutex_);
  ForwardingAllocator::Free(pointer);
  const auto found = live_.find(pointer);
  if (found == live_.end()) return;
  file_ << "f " << found->second << '\n';
  spare_.push_back(found->second);
  live_.erase(found);
}

void RecordingAllocator::Reached(const StreamMark& mark) {
  std::lock_guard lock(mutex_);
  ForwardingAllocator::Reached(mark);
  file_ << "i " << LaneOf(mark.stream) << '\n';
}

}  // namespace cudaep::memory
