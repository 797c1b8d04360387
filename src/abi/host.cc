#include "abi/host.h"

#include <algorithm>
#include <cstdio>

#include "abi/api_version.h"

namespace cudaep::abi {
namespace {

HostApi g_host;

// What the host's callers can match on. Out of memory and a lost device have no code of their own there; their
// messages begin with a stable word instead.
OrtErrorCode ErrorCodeOf(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return ORT_OK;
    case StatusCode::kInvalidArgument:
      return ORT_INVALID_ARGUMENT;
    case StatusCode::kNotSupported:
      return ORT_NOT_IMPLEMENTED;
    case StatusCode::kLibraryMissing:
      return ORT_NO_SUCHFILE;
    case StatusCode::kOutOfMemory:
    case StatusCode::kDeviceError:
    case StatusCode::kDeviceLost:
      return ORT_EP_FAIL;
    case StatusCode::kNotReady:
    case StatusCode::kFailedPrecondition:
    case StatusCode::kInternal:
      return ORT_FAIL;
  }
  return ORT_FAIL;
}

StatusCode StatusCodeOf(OrtErrorCode code) {
  switch (code) {
    case ORT_INVALID_ARGUMENT:
      return StatusCode::kInvalidArgument;
    case ORT_NOT_IMPLEMENTED:
      return StatusCode::kNotSupported;
    default:
      return StatusCode::kInternal;
  }
}

}  // namespace

const HostApi& Host() { return g_host; }

OrtStatus* NegotiateHost(const OrtApiBase* base) {
  // Asking for a version above the host's makes it print to stderr, so its own number is read first ("1.24.4" is 24).
  unsigned minor = ORT_API_VERSION;
  std::sscanf(base->GetVersionString(), "%*u.%u", &minor);
  for (uint32_t version = std::min<uint32_t>(ORT_API_VERSION, minor); version >= kMinimumApiVersion; --version) {
    const OrtApi* ort = base->GetApi(version);
    const OrtEpApi* ep = ort != nullptr ? ort->GetEpApi() : nullptr;
    if (ep == nullptr) continue;
    g_host = {.ort = ort, .ep = ep, .version = version};
    return nullptr;
  }
  const OrtApi* oldest = base->GetApi(1);
  if (oldest == nullptr) return nullptr;
  const std::string message = StrCat("ort-cuda-ep ", CUDAEP_VERSION, " needs ONNX Runtime 1.", kMinimumApiVersion,
                                     " or newer; this one is ", base->GetVersionString());
  return oldest->CreateStatus(ORT_NOT_IMPLEMENTED, message.c_str());
}

OrtStatus* ToOrt(const Status& status) {
  if (status.ok()) return nullptr;
  return g_host.ort->CreateStatus(ErrorCodeOf(status.code()), status.ToString().c_str());
}

Status FromOrt(OrtStatus* status) {
  if (status == nullptr) return Status::Ok();
  Status result(StatusCodeOf(g_host.ort->GetErrorCode(status)), g_host.ort->GetErrorMessage(status));
  g_host.ort->ReleaseStatus(status);
  return result;
}

}  // namespace cudaep::abi
