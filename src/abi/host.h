// The host's API tables, negotiated once when the library is registered.
//
// Threads: written before any factory exists, read-only afterwards.
#pragma once

#include <onnxruntime_c_api.h>

#include <string>

#include "core/status.h"
#include "core/unique_handle.h"

namespace cudaep::abi {

struct HostApi {
  const OrtApi* ort = nullptr;
  const OrtEpApi* ep = nullptr;
  uint32_t version = 0;           // min(compiled, host's)
  const char* version_text = "";  // the host's own, e.g. "1.31.1"
  // Whether a session's allocators may end after it; from 1.28 on (abi/kept_allocators.h).
  bool allocators_outlive_sessions = true;
  // Whether it enforces memory budgets for one name alone; from 1.28 on (abi/session_budget.h).
  bool budgets_by_name = true;
};

const HostApi& Host();

// Finds the newest API both sides know; `found` tells whether there is one. Fails on a host older than
// kMinimumApiVersion, one built without the provider API, and, while `in_use`, on any other host than the present one.
// The error can be handed to the host, since every version has the function that makes it; one without any API at all
// gets neither an API nor an error.
OrtStatus* NegotiateHost(const OrtApiBase* base, bool in_use, bool* found);

// One line at level info for each of kHostFeatures that the host lacks.
void LogMissingFeatures();

// Status and OrtStatus, in both directions. ToOrt(OK) is null; FromOrt releases what it is given.
OrtStatus* ToOrt(const Status& status);
// What a catch block says of the exception in flight; takes no memory of ours. For the host of `ort`.
OrtStatus* StatusOfException(const OrtApi* ort) noexcept;
inline OrtStatus* StatusOfException() noexcept { return StatusOfException(Host().ort); }
Status FromOrt(OrtStatus* status);

// Owner of the host's key-value pairs.
struct KeyValuePairsTraits {
  using Type = OrtKeyValuePairs*;
  static Type Null() { return nullptr; }
  static void Release(Type pairs) { Host().ort->ReleaseKeyValuePairs(pairs); }
};
using UniqueKeyValuePairs = UniqueHandle<KeyValuePairsTraits>;

}  // namespace cudaep::abi

// Returns from the enclosing Status function when a call into the host fails.
#define CUDAEP_RETURN_IF_ORT_ERROR(expression)                    \
  do {                                                            \
    if (OrtStatus* cudaep_ort_status = (expression)) [[unlikely]] \
      return ::cudaep::abi::FromOrt(cudaep_ort_status);           \
  } while (false)
