// Requests for host memory that no machine grants are refused here, for the host's library too: the address sanitizer
// ends the process where the standard says std::bad_alloc, and a system that overcommits grants what it does not have.
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

constexpr size_t kMostBytes = size_t{1} << 30;  // of one request

void* Allocate(size_t bytes, size_t alignment) {
  if (bytes > kMostBytes) throw std::bad_alloc();
  void* pointer = nullptr;
  if (alignment <= alignof(std::max_align_t)) {
    pointer = std::malloc(bytes == 0 ? 1 : bytes);
  } else if (posix_memalign(&pointer, alignment, bytes) != 0) {
    pointer = nullptr;
  }
  if (pointer == nullptr) throw std::bad_alloc();
  return pointer;
}

}  // namespace

void* operator new(size_t bytes) { return Allocate(bytes, 0); }
void* operator new[](size_t bytes) { return Allocate(bytes, 0); }
void* operator new(size_t bytes, std::align_val_t alignment) { return Allocate(bytes, static_cast<size_t>(alignment)); }
void* operator new[](size_t bytes, std::align_val_t alignment) {
  return Allocate(bytes, static_cast<size_t>(alignment));
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return bytes > kMostBytes ? nullptr : std::malloc(bytes == 0 ? 1 : bytes);
}
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept {
  return bytes > kMostBytes ? nullptr : std::malloc(bytes == 0 ? 1 : bytes);
}
void operator delete(void* pointer) noexcept { std::free(pointer); }
void operator delete[](void* pointer) noexcept { std::free(pointer); }
void operator delete(void* pointer, size_t) noexcept { std::free(pointer); }
void operator delete[](void* pointer, size_t) noexcept { std::free(pointer); }
void operator delete(void* pointer, std::align_val_t) noexcept { std::free(pointer); }
void operator delete[](void* pointer, std::align_val_t) noexcept { std::free(pointer); }
void operator delete(void* pointer, size_t, std::align_val_t) noexcept { std::free(pointer); }
void operator delete[](void* pointer, size_t, std::align_val_t) noexcept { std::free(pointer); }
