#include "core/status.h"

#include <string>

#include "core/strings.h"

namespace cudaep {

std::string_view StatusCodeName(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return "OK";
    case StatusCode::kInvalidArgument:
      return "INVALID_ARGUMENT";
    case StatusCode::kNotSupported:
      return "NOT_SUPPORTED";
    case StatusCode::kOutOfMemory:
      return "OUT_OF_MEMORY";
    case StatusCode::kLibraryMissing:
      return "LIBRARY_MISSING";
    case StatusCode::kDeviceError:
      return "DEVICE_ERROR";
    case StatusCode::kDeviceLost:
      return "DEVICE_LOST";
    case StatusCode::kNotReady:
      return "NOT_READY";
    case StatusCode::kFailedPrecondition:
      return "FAILED_PRECONDITION";
    case StatusCode::kInternal:
      return "INTERNAL";
  }
  return "UNKNOWN";
}

struct Status::State {
  StatusCode code;
  std::string message;
};

Status::Status(StatusCode code, std::string_view message) : state_(new State{code, std::string(message)}) {}
Status::Status(StatusCode code, std::initializer_list<TextPiece> message)
    : state_(new State{code, Concatenate(message)}) {}

std::string_view Status::message() const { return state_ == nullptr ? std::string_view() : state_->message; }
StatusCode Status::CodeOfError() const { return state_->code; }
Status::State* Status::Copy() const { return new State(*state_); }
void Status::Drop() { delete state_; }

Status Status::WithContext(std::string_view context) && {
  if (state_ != nullptr) state_->message.insert(0, StrCat(context, ": "));
  return std::move(*this);
}

std::string Status::ToString() const {
  return ok() ? std::string("OK") : StrCat(StatusCodeName(code()), ": ", message());
}

}  // namespace cudaep
