// Owner of a handle that is released by one function: streams, events, graphs, pools, library handles.
//
// Traits give `Type`, `Null()` and `Release(Type)`; the release must not fail in a way anybody could react to.
// Not thread safe; move only.
#pragma once

#include <utility>

namespace cudaep {

template <class Traits>
class UniqueHandle {
 public:
  using Type = typename Traits::Type;

  UniqueHandle() = default;
  explicit UniqueHandle(Type handle) : handle_(handle) {}
  UniqueHandle(UniqueHandle&& other) noexcept : handle_(other.Detach()) {}
  UniqueHandle& operator=(UniqueHandle&& other) noexcept {
    if (this != &other) Reset(other.Detach());
    return *this;
  }
  ~UniqueHandle() { Reset(); }

  Type get() const { return handle_; }
  explicit operator bool() const { return handle_ != Traits::Null(); }

  // Gives the handle up without releasing it.
  Type Detach() { return std::exchange(handle_, Traits::Null()); }

  void Reset(Type handle = Traits::Null()) {
    Type old = std::exchange(handle_, handle);
    if (old != Traits::Null()) Traits::Release(old);
  }

  // For creation functions with an out parameter; releases what was held.
  Type* Receive() {
    Reset();
    return &handle_;
  }

 private:
  Type handle_ = Traits::Null();
};

}  // namespace cudaep
