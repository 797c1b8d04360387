#include "allocation_counter.h"

#include <cstdlib>
#include <new>

namespace {
thread_local int64_t g_allocations = 0;
}
// Not inlined: the compiler would take malloc and free for a mismatched pair. The form that does not throw is replaced
// too: a sanitizer's own would be one with the operator delete below.
[[gnu::noinline]] void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  ++g_allocations;
  return std::malloc(bytes);
}
[[gnu::noinline]] void* operator new(size_t bytes) {
  if (void* pointer = operator new(bytes, std::nothrow)) return pointer;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* pointer) noexcept { std::free(pointer); }
[[gnu::noinline]] void operator delete(void* pointer, size_t) noexcept { std::free(pointer); }

namespace cudaep::testing {

int64_t AllocationCount() { return g_allocations; }

}  // namespace cudaep::testing
