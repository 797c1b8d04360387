// Writes every request to a file, for replay by the arena's benchmark (bench/memory_trace.h gives the format).
//
// Requests that fail and memory of Reserve are left out. Streams and memory get small numbers; those of memory come
// round again. A file that cannot be written any more is said once in the log; the allocator goes on.
// Threads: any; requests are written in the order of their answers.
#pragma once

#include <cstdint>
#include <fstream>
#include <mutex>
#include <string>
#include <unordered_map>

#include "memory/adaptors/forwarding_allocator.h"

namespace cudaep::memory {

class RecordingAllocator final : public ForwardingAllocator {
 public:
  // kInvalidArgument: the file cannot be written. What it held before is lost.
  static Result<std::shared_ptr<Allocator>> Create(std::shared_ptr<Allocator> inner, const std::string& path);

  RecordingAllocator(std::shared_ptr<Allocator> inner, std::string path, std::ofstream file)
      : ForwardingAllocator(std::move(inner)), path_(std::move(path)), file_(std::move(file)) {}
  ~RecordingAllocator() override;

  Result<void*> Allocate(size_t bytes) override;
  Result<void*> AllocateOnStream(size_t bytes, device::Stream stream) override;
  void Free(void* pointer) override;
  void Reached(const StreamMark& mark) override;

 private:
  void Note(void* pointer, size_t bytes, const std::string& lane);
  // The caller holds mutex_.
  uint32_t LaneOf(device::Stream stream);

  const std::string path_;
  std::mutex mutex_;
  std::ofstream file_;
  std::unordered_map<device::Stream, uint32_t> lanes_;
  std::unordered_map<void*, uint32_t> live_;
  std::vector<uint32_t> spare_;
};

}  // namespace cudaep::memory
