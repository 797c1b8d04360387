// Error values. Every function that can fail returns Status, or Result<T> when it also yields a value.
//
// Ownership: a Status owns its message; success is one null pointer, so returning it costs nothing.
// Threads: a Status is a value; it is not shared between threads without a copy.
// Failure: building an error message may allocate. Nothing in the project throws.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "core/text_piece.h"

namespace cudaep {

// What kind of failure a caller can react to. The host sees these through the table in abi/host.cc.
enum class StatusCode : uint8_t {
  kOk = 0,
  kInvalidArgument,     // an option, attribute, shape or type that is wrong as given
  kNotSupported,        // well formed, but not offered by this build, device or library version
  kOutOfMemory,         // device, pinned or workspace memory is exhausted; a smaller request may succeed
  kLibraryMissing,      // a vendor library is absent or too old; the message names file, version and places
  kDeviceError,         // a driver or library call failed
  kDeviceLost,          // the device is unusable until the process ends; carries the first cause
  kNotReady,            // asked without waiting, and the work is still running
  kFailedPrecondition,  // a call in the wrong state (capture, released object)
  kInternal,            // an invariant of this library broke
};

// Stable upper-case name of a code, e.g. "OUT_OF_MEMORY".
std::string_view StatusCodeName(StatusCode code);

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string_view message);
  Status(StatusCode code, std::initializer_list<TextPiece> message);
  ~Status() {
    if (state_ != nullptr) [[unlikely]]
      Drop();
  }

  Status(Status&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  Status& operator=(Status&& other) noexcept {
    Status taken(std::move(other));
    std::swap(state_, taken.state_);
    return *this;
  }
  Status(const Status& other) : state_(other.state_ == nullptr ? nullptr : other.Copy()) {}
  Status& operator=(const Status& other) { return *this = Status(other); }

  static Status Ok() { return Status(); }

  bool ok() const { return state_ == nullptr; }
  StatusCode code() const { return state_ == nullptr ? StatusCode::kOk : CodeOfError(); }
  std::string_view message() const;  // empty on success

  // The same error with `context` and ": " put before its message; a no-op on success.
  Status WithContext(std::string_view context) &&;

  // "CODE: message", or "OK".
  std::string ToString() const;

  // Marks an error as deliberately dropped, where nobody is left to hear it (destructors).
  void IgnoreError() const {}

 private:
  struct State;

  StatusCode CodeOfError() const;
  State* Copy() const;
  void Drop();

  State* state_ = nullptr;  // owned; without <memory>, which costs each kernel file half a second
};

// Shorthands: one per code, each concatenating its arguments into the message.
template <class... Args>
Status InvalidArgument(const Args&... args) {
  return Status(StatusCode::kInvalidArgument, {TextPiece(args)...});
}
template <class... Args>
Status NotSupported(const Args&... args) {
  return Status(StatusCode::kNotSupported, {TextPiece(args)...});
}
template <class... Args>
Status OutOfMemory(const Args&... args) {
  return Status(StatusCode::kOutOfMemory, {TextPiece(args)...});
}
template <class... Args>
Status FailedPrecondition(const Args&... args) {
  return Status(StatusCode::kFailedPrecondition, {TextPiece(args)...});
}
template <class... Args>
Status Internal(const Args&... args) {
  return Status(StatusCode::kInternal, {TextPiece(args)...});
}

// A value or the error that prevented it. `value()` may be called only when `ok()`.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return status_.ok(); }
  const Status& status() const& { return status_; }
  Status status() && { return std::move(status_); }
  T& value() & { return value_; }
  const T& value() const& { return value_; }
  T&& value() && { return std::move(value_); }
  T* operator->() { return &value_; }
  T& operator*() & { return value_; }

 private:
  Status status_;
  T value_{};
};

}  // namespace cudaep

#define CUDAEP_CONCAT_INNER(a, b) a##b
#define CUDAEP_CONCAT(a, b) CUDAEP_CONCAT_INNER(a, b)

// Returns from the enclosing function when `expression` yields an error.
#define CUDAEP_RETURN_IF_ERROR(expression)         \
  do {                                             \
    ::cudaep::Status cudaep_status = (expression); \
    if (!cudaep_status.ok()) [[unlikely]]          \
      return cudaep_status;                        \
  } while (false)

// Assigns the value of a Result to `target` (which may be a declaration) or returns its error.
#define CUDAEP_ASSIGN_OR_RETURN(target, expression) \
  CUDAEP_ASSIGN_OR_RETURN_NAMED(CUDAEP_CONCAT(cudaep_result_, __LINE__), target, expression)
#define CUDAEP_ASSIGN_OR_RETURN_NAMED(result, target, expression) \
  auto result = (expression);                                     \
  if (!result.ok()) [[unlikely]]                                  \
    return std::move(result).status();                            \
  target = std::move(result).value()
