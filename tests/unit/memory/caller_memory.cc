#include "caller_memory.h"

#include <map>
#include <mutex>
#include <set>
#include <stdexcept>

namespace cudaep::memory::testing {
namespace {

struct State {
  device::Stream stream = nullptr;
  std::multimap<size_t, void*> cached;  // by size
  std::map<void*, size_t> live;
  CallerMemory::Failure failure = CallerMemory::Failure::kNone;
  size_t failures = 0, allocs = 0, frees = 0, empties = 0, strangers = 0;
  std::function<void()> on_alloc;
  alignas(256) char host[512];
};
std::mutex mutex;
State state;

bool Fails(CallerMemory::Failure failure) {
  if (state.failure != failure || state.failures == 0) return false;
  --state.failures;
  return true;
}

void EmptyCache() {
  std::lock_guard lock(mutex);
  ++state.empties;
  if (Fails(CallerMemory::Failure::kThrowFromEmpty)) throw std::runtime_error("cache stays");
  for (const auto& [bytes, pointer] : state.cached) device::Free(pointer).IgnoreError();
  state.cached.clear();
}

}  // namespace

void CallerMemory::Reset(device::Stream stream) {
  std::lock_guard lock(mutex);
  for (const auto& [bytes, pointer] : state.cached) device::Free(pointer).IgnoreError();
  state = State();
  state.stream = stream;
}

ExternalCallbacks CallerMemory::Callbacks() {
  std::lock_guard lock(mutex);
  return {Alloc, Free, EmptyCache, state.stream};
}

void* CallerMemory::Alloc(size_t bytes) {
  std::function<void()> first;
  {
    std::lock_guard lock(mutex);
    first = state.on_alloc;
  }
  if (first) first();
  std::lock_guard lock(mutex);
  if (Fails(Failure::kNull)) return nullptr;
  if (Fails(Failure::kThrow)) throw std::runtime_error("caller is out of memory");
  if (Fails(Failure::kThrowInt)) throw 3;
  void* pointer = nullptr;
  if (Fails(Failure::kHostMemory)) {
    pointer = state.host;
  } else if (state.cached.contains(bytes)) {
    const auto newest = std::prev(state.cached.upper_bound(bytes));
    pointer = newest->second;
    state.cached.erase(newest);
  } else if (!device::Malloc(&pointer, bytes + 512).ok()) {
    return nullptr;
  }
  if (Fails(Failure::kMisaligned)) pointer = static_cast<char*>(pointer) + 64;
  state.live.emplace(pointer, bytes);
  ++state.allocs;
  return pointer;
}

void CallerMemory::Free(void* pointer) {
  std::lock_guard lock(mutex);
  const auto found = state.live.find(pointer);
  if (found == state.live.end()) {
    ++state.strangers;
    return;
  }
  ++state.frees;
  if (reinterpret_cast<uintptr_t>(pointer) % 256 == 0 && pointer != state.host) {
    state.cached.emplace(found->second, pointer);
  }
  state.live.erase(found);
  if (Fails(Failure::kThrowFromFree)) throw std::runtime_error("block stays");
}

void CallerMemory::FailNext(Failure failure, size_t count) {
  std::lock_guard lock(mutex);
  state.failure = failure;
  state.failures = count;
}

void CallerMemory::OnAlloc(std::function<void()> call) {
  std::lock_guard lock(mutex);
  state.on_alloc = std::move(call);
}

size_t CallerMemory::allocs() {
  std::lock_guard lock(mutex);
  return state.allocs;
}
size_t CallerMemory::frees() {
  std::lock_guard lock(mutex);
  return state.frees;
}
size_t CallerMemory::empties() {
  std::lock_guard lock(mutex);
  return state.empties;
}
size_t CallerMemory::outstanding() {
  std::lock_guard lock(mutex);
  return state.live.size();
}
size_t CallerMemory::strangers() {
  std::lock_guard lock(mutex);
  return state.strangers;
}

}  // namespace cudaep::memory::testing
