#include "core/status.h"

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

Status Status::WithContext(std::string_view context) && {
  if (state_) state_->message.insert(0, StrCat(context, ": "));
  return std::move(*this);
}

std::string Status::ToString() const {
  return ok() ? std::string("OK") : StrCat(StatusCodeName(code()), ": ", message());
}

}  // namespace cudaep
