#include "failing_memory.h"

#include <cstdlib>
#include <new>

// How many allocations of this thread still work; negative: all of them.
static thread_local int g_left = -1;
// And how many fail then.
static thread_local int g_failures = 0;

void* operator new(size_t bytes) {
  if (g_left == 0 && g_failures > 0) {
    --g_failures;
    throw std::bad_alloc();
  }
  if (g_left > 0) --g_left;
  if (void* pointer = std::malloc(bytes)) return pointer;
  throw std::bad_alloc();
}
void operator delete(void* pointer) noexcept { std::free(pointer); }
void operator delete(void* pointer, size_t) noexcept { std::free(pointer); }

namespace cudaep::test {

FailingMemory::FailingMemory(int nth, int count) {
  g_left = nth;
  g_failures = count;
}
FailingMemory::~FailingMemory() { g_left = -1; }
UnlimitedMemory::UnlimitedMemory() : left_(g_left) { g_left = -1; }
UnlimitedMemory::~UnlimitedMemory() { g_left = left_; }

}  // namespace cudaep::test
