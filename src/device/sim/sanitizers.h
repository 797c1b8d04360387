// What the simulated device tells the sanitizers: fiber switches, order between device threads, poisoned memory.
//
// In a build without sanitizers everything here is nothing.
#pragma once

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
extern "C" {
void AnnotateIgnoreReadsBegin(const char*, int);
void AnnotateIgnoreReadsEnd(const char*, int);
void AnnotateIgnoreWritesBegin(const char*, int);
void AnnotateIgnoreWritesEnd(const char*, int);
}
#endif

namespace cudaep::device::sim {

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kAddressSanitizer = true;
inline void PoisonMemory(const void* begin, size_t bytes) { __asan_poison_memory_region(begin, bytes); }
inline void UnpoisonMemory(const void* begin, size_t bytes) { __asan_unpoison_memory_region(begin, bytes); }
#else
inline constexpr bool kAddressSanitizer = false;
inline void PoisonMemory(const void*, size_t) {}
inline void UnpoisonMemory(const void*, size_t) {}
#endif

#if defined(__SANITIZE_THREAD__)
inline constexpr bool kThreadSanitizer = true;
// While one lives, TSan does not look at the executor's own bookkeeping.
struct Unseen {
  Unseen() {
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  }
  ~Unseen() {
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  }
};
// For functions that return under another identity than they were entered with: TSan must not count their calls.
#define CUDAEP_NO_TSAN __attribute__((no_sanitize("thread")))
inline void* TsanCreateFiber() { return __tsan_create_fiber(0); }
inline void* TsanCurrentFiber() { return __tsan_get_current_fiber(); }
// Barriers are the only order between device threads: a switch must not add one.
CUDAEP_NO_TSAN inline void TsanSwitch(void* fiber) { __tsan_switch_to_fiber(fiber, __tsan_switch_to_fiber_no_sync); }
CUDAEP_NO_TSAN inline void TsanAcquire(void* object) { __tsan_acquire(object); }
CUDAEP_NO_TSAN inline void TsanRelease(void* object) { __tsan_release(object); }
#else
inline constexpr bool kThreadSanitizer = false;
#define CUDAEP_NO_TSAN
struct Unseen {
  Unseen() {}
};
inline void* TsanCreateFiber() { return nullptr; }
inline void* TsanCurrentFiber() { return nullptr; }
inline void TsanSwitch(void*) {}
inline void TsanAcquire(void*) {}
inline void TsanRelease(void*) {}
#endif

}  // namespace cudaep::device::sim
