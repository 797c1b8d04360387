#include "abi/host.h"

#include <algorithm>
#include <cstdio>
#include <new>

#include "abi/api_version.h"
#include "core/log.h"
#include "core/strings.h"

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

// The API numbers are the host's minor versions ("1.24.4" has 24), up to the next major one.
struct HostVersion {
  unsigned major = 1, minor = ORT_API_VERSION;
};

HostVersion ParseVersion(const char* text) {
  HostVersion version;
  if (std::sscanf(text, "%u.%u", &version.major, &version.minor) != 2) return {};
  return version;
}

// Asking for a version above the host's makes it print to stderr, so its own number is read first.
uint32_t NewestVersionToAsk(const char* text) {
  const HostVersion version = ParseVersion(text);
  return version.major == 1 ? std::min<uint32_t>(ORT_API_VERSION, version.minor) : ORT_API_VERSION;
}

std::string WhyRefused(const char* text, bool has_api) {
  const std::string ours = StrCat("ort-cuda-ep ", CUDAEP_VERSION);
  if (has_api) {
    return StrCat(ours, " needs the execution provider API, and this ONNX Runtime (", text,
                  ") was built without it: install a standard build");
  }
  const HostVersion version = ParseVersion(text);
  if (version.major > 1 || version.minor >= kMinimumApiVersion) {
    return StrCat(ours, " speaks the API versions ", kMinimumApiVersion, " to ", ORT_API_VERSION,
                  ", and this ONNX Runtime (", text,
                  ") offers none of them: install another release of one of the two");
  }
  return StrCat(ours, " needs ONNX Runtime 1.", kMinimumApiVersion, " or newer; this one is ", text);
}

}  // namespace

const HostApi& Host() { return g_host; }

OrtStatus* NegotiateHost(const OrtApiBase* base, bool in_use, bool* found) {
  *found = false;
  const char* text = base->GetVersionString();
  if (text == nullptr) text = "of unknown version";
  bool has_api = false;
  for (uint32_t version = NewestVersionToAsk(text); version >= kMinimumApiVersion; --version) {
    const OrtApi* ort = base->GetApi(version);
    if (ort == nullptr) continue;
    has_api = true;
    const OrtEpApi* ep = ort->GetEpApi();
    if (ep == nullptr) continue;
    if (in_use && g_host.ort != ort) {
      return ort->CreateStatus(ORT_FAIL, StrCat("this process already uses ort-cuda-ep with another copy of ONNX "
                                                "Runtime (",
                                                g_host.version_text, "); one library serves one copy")
                                             .c_str());
    }
    const HostVersion own = ParseVersion(text);
    const auto is_from = [&](unsigned minor) { return own.major > 1 || own.minor >= minor; };
    g_host = {.ort = ort,
              .ep = ep,
              .version = version,
              .version_text = text,
              .allocators_outlive_sessions = is_from(kAllocatorsOutliveSessions),
              .budgets_by_name = is_from(kBudgetsByName)};
    *found = true;
    return nullptr;
  }
  const OrtApi* oldest = base->GetApi(1);
  return oldest == nullptr ? nullptr : oldest->CreateStatus(ORT_NOT_IMPLEMENTED, WhyRefused(text, has_api).c_str());
}

void LogMissingFeatures() {
  for (const HostFeature& feature : kHostFeatures) {
    if (g_host.version >= feature.since) continue;
    Log(LogLevel::kInfo, "ONNX Runtime ", g_host.version_text, " has no ", feature.name, " (since 1.", feature.since,
        "): ", feature.without);
  }
}

OrtStatus* ToOrt(const Status& status) {
  if (status.ok()) return nullptr;
  return g_host.ort->CreateStatus(ErrorCodeOf(status.code()), status.ToString().c_str());
}

OrtStatus* StatusOfException(const OrtApi* ort) noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return ort->CreateStatus(ORT_FAIL, "OUT_OF_MEMORY: host memory is exhausted");
  } catch (...) {
    return ort->CreateStatus(ORT_FAIL, "INTERNAL: unexpected exception");
  }
}

Status FromOrt(OrtStatus* status) {
  if (status == nullptr) return Status::Ok();
  Status result(StatusCodeOf(g_host.ort->GetErrorCode(status)), g_host.ort->GetErrorMessage(status));
  g_host.ort->ReleaseStatus(status);
  return result;
}

}  // namespace cudaep::abi
