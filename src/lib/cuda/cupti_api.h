// CUPTI's activity interface, found at run time, and as much of its records as is read.
//
// Declared here rather than taken from CUPTI's headers, which many toolkits lack: layouts and numbers are those of CUDA
// 13, whose later releases only append fields. Where a build has the headers, cupti_api.cc compares. The functions are
// called by whoever has the subscription alone (activity_cupti.cc).
// Threads and failure: as loader.h says.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/loader.h"

namespace cudaep::cupti {

using Code = int;  // CUptiResult
inline constexpr Code kSuccess = 0, kEndOfBuffer = 12, kInsufficientPrivileges = 35, kOtherSubscriber = 39;

// CUpti_ActivityKind
enum Kind : uint32_t {
  kCopy = 1,
  kFill = 2,
  kDriverCall = 4,
  kRuntimeCall = 5,
  kKernel = 10,
  kPeerCopy = 22,
  kCorrelation = 39,
};
inline constexpr uint32_t kFlushForced = 1;
// CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2: other users of external correlation in wide use take the first two.
inline constexpr uint32_t kOurScopes = 5;

struct KernelRecord {
  Kind kind;
  uint8_t unread_1[12];
  uint64_t begin_ns, end_ns;
  uint8_t unread_2[8];
  uint32_t device, context, stream;
  uint8_t unread_3[40];
  uint32_t call;
  uint8_t unread_4[8];
  const char* name;
  uint8_t unread_5[32];
  uint64_t graph_node;
};
// Of copies and fills alike.
struct CopyRecord {
  Kind kind;
  uint8_t unread_1[4];
  uint64_t bytes;
  uint64_t begin_ns, end_ns;
  uint32_t device, context, stream;
  uint32_t call;
  uint8_t unread_2[16];
  uint64_t graph_node;
};
struct PeerCopyRecord {
  Kind kind;
  uint8_t unread_1[4];
  uint64_t bytes;
  uint64_t begin_ns, end_ns;
  uint32_t device, context, stream;
  uint8_t unread_2[16];
  uint32_t call;
  uint8_t unread_3[8];
  uint64_t graph_node;
};
// That the call `call` was made inside scope `id`.
struct CorrelationRecord {
  Kind kind;
  uint32_t scope_kind;
  uint64_t id;
  uint32_t call;
};

using RequestBuffer = void (*)(uint8_t** buffer, size_t* size, size_t* most_records);
using CompleteBuffer = void (*)(void* context, uint32_t stream, uint8_t* buffer, size_t size, size_t valid);
using Callback = void (*)(void* state, int domain, uint32_t id, const void* data);
using Subscriber = void*;

// name, parameters
#define CUDAEP_CUPTI_FUNCTIONS(X)                                                 \
  X(cuptiSubscribe, (Subscriber*, Callback, void*))                               \
  X(cuptiUnsubscribe, (Subscriber))                                               \
  X(cuptiActivityRegisterCallbacks, (RequestBuffer, CompleteBuffer))              \
  X(cuptiActivityEnable, (Kind))                                                  \
  X(cuptiActivityDisable, (Kind))                                                 \
  X(cuptiActivityFlushAll, (uint32_t flag))                                       \
  X(cuptiActivityGetNextRecord, (uint8_t * buffer, size_t valid, void** record))  \
  X(cuptiActivityGetNumDroppedRecords, (void* context, uint32_t stream, size_t*)) \
  X(cuptiActivityPushExternalCorrelationId, (uint32_t kind, uint64_t id))         \
  X(cuptiActivityPopExternalCorrelationId, (uint32_t kind, uint64_t * last))      \
  X(cuptiGetTimestamp, (uint64_t*))                                               \
  X(cuptiGetResultString, (Code, const char** text))

struct Api {
  lib::LoadedLibrary library;
#define CUDAEP_DECLARE(name, parameters) Code(*name) parameters = nullptr;
  CUDAEP_CUPTI_FUNCTIONS(CUDAEP_DECLARE)
#undef CUDAEP_DECLARE
};

// Loads the library at the first call that succeeds.
Result<const Api*> Cupti();

Status ToStatus(const Api& api, Code code, std::string_view call);

}  // namespace cudaep::cupti
