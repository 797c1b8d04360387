#include "device/sim/shared_memory.h"

#include <cstring>

#include "device/sim/sanitizers.h"

// Not there in a program without kernels.
extern "C" {
extern std::byte cudaep_shared_begin[] __attribute__((weak, visibility("hidden")));
extern std::byte cudaep_shared_end[] __attribute__((weak, visibility("hidden")));
}

namespace cudaep::device::sim {
namespace {

constexpr size_t kLineBytes = 64, kLineWords = kLineBytes / sizeof(uint64_t);
constexpr size_t kMostLaunches = 4096;  // of a kernel that are known as searched
// NaN in every floating point type, and no value that a kernel fills a line with: a line of it was not written.
constexpr uint64_t kFreshWord = 0xffb7ffd9ff9effc3;

// ASan guards the arrays by poison between them, which its memset would stumble upon: the words are walked by hand.
#if defined(__SANITIZE_ADDRESS__)
#define CUDAEP_NO_ASAN __attribute__((no_sanitize("address"), noinline))
#define CUDAEP_NO_IDIOM() asm volatile("" ::: "memory")
#else
#define CUDAEP_NO_ASAN
#define CUDAEP_NO_IDIOM() static_cast<void>(0)
#endif

CUDAEP_NO_ASAN void FillLines(std::byte* at, size_t lines) {
  auto* words = reinterpret_cast<uint64_t*>(at);
  for (size_t i = 0; i < lines * kLineWords; ++i) {
    words[i] = kFreshWord;
    CUDAEP_NO_IDIOM();
  }
}
CUDAEP_NO_ASAN void CopyLines(std::byte* to, const std::byte* from, size_t lines) {
  auto* words = reinterpret_cast<uint64_t*>(to);
  const auto* source = reinterpret_cast<const uint64_t*>(from);
  for (size_t i = 0; i < lines * kLineWords; ++i) {
    words[i] = source[i];
    CUDAEP_NO_IDIOM();
  }
}
CUDAEP_NO_ASAN bool IsFresh(const std::byte* line) {
  const auto* words = reinterpret_cast<const uint64_t*>(line);
  uint64_t other = 0;
  for (size_t i = 0; i < kLineWords; ++i) other |= words[i] ^ kFreshWord;
  return other == 0;
}

}  // namespace

SharedMemory& SharedMemory::Get() {
  static SharedMemory* const memory = new SharedMemory;  // outlives every static destructor
  return *memory;
}

SharedMemory::SharedMemory()
    : begin_(cudaep_shared_begin), lines_(static_cast<size_t>(cudaep_shared_end - cudaep_shared_begin) / kLineBytes) {
  FillLines(begin_, lines_);
}

void SharedMemory::Search(Use* use) {
  std::vector<Range> written;
  const auto add = [&](size_t line) {
    if (!written.empty() && written.back().end == line) {
      ++written.back().end;
    } else {
      written.push_back({line, line + 1});
    }
  };
  auto known = use->written.begin();
  for (size_t line = 0; line < lines_; ++line) {
    while (known != use->written.end() && known->end <= line) ++known;
    const bool was_known = known != use->written.end() && known->begin <= line;
    if (was_known || !IsFresh(begin_ + line * kLineBytes)) add(line);
  }
  use->written = std::move(written);
}

void SharedMemory::EndBlock(AnyKernel kernel, uint64_t shape) {
  if (lines_ == 0) return;
  Use& use = uses_[kernel];
  if (use.shapes.insert(shape).second) Search(&use);
  for (const Range& range : use.written) FillLines(begin_ + range.begin * kLineBytes, range.end - range.begin);
}

// Of a launch and not of a shape: what a block leaves here unseen would be its predecessor's when it goes on.
SharedMemory::Taken SharedMemory::Take(AnyKernel kernel, uint64_t launch) {
  Taken taken;
  if (lines_ == 0) return taken;
  Use& use = uses_[kernel];
  if (use.launches.size() == kMostLaunches) use.launches.clear();
  if (use.launches.insert(launch).second) Search(&use);
  taken.ranges = use.written;
  for (const Range& range : taken.ranges) {
    const size_t lines = range.end - range.begin, at = taken.bytes.size();
    taken.bytes.resize(at + lines * kLineBytes);
    CopyLines(taken.bytes.data() + at, begin_ + range.begin * kLineBytes, lines);
    FillLines(begin_ + range.begin * kLineBytes, lines);
  }
  return taken;
}

void SharedMemory::Put(const Taken& taken) {
  const std::byte* from = taken.bytes.data();
  for (const Range& range : taken.ranges) {
    CopyLines(begin_ + range.begin * kLineBytes, from, range.end - range.begin);
    from += (range.end - range.begin) * kLineBytes;
  }
}

}  // namespace cudaep::device::sim
