#include "lib/cuda/cupti_api.h"

#include "core/strings.h"

#if defined(CUDAEP_COMPARE_WITH_CUPTI_HEADER) && __has_include(<cupti.h>)
#define CUDAEP_HAS_CUPTI_HEADER
#include <cupti.h>
#endif

namespace cudaep::cupti {
namespace {

constexpr std::string_view kWheelFolders[] = {"nvidia/cu13/lib", "nvidia/cuda_cupti/lib"};
// Without a version: the soname has it, and CUPTI counts otherwise than the others.
constexpr lib::LibrarySpec kSpec{"CUPTI", "libcupti.so.13", nullptr, 0, kWheelFolders, "pip install nvidia-cuda-cupti"};

Status Load(Api* api) {
  CUDAEP_ASSIGN_OR_RETURN(api->library, lib::LoadLibrary(kSpec));
#define CUDAEP_BIND(name, parameters) \
  CUDAEP_RETURN_IF_ERROR(lib::BindSymbol(api->library, #name, reinterpret_cast<void**>(&api->name)));
  CUDAEP_CUPTI_FUNCTIONS(CUDAEP_BIND)
#undef CUDAEP_BIND
  return Status::Ok();
}

constinit lib::LazyApi<Api> loaded{Load};

#ifdef CUDAEP_HAS_CUPTI_HEADER
#define CUDAEP_SAME(ours, our_field, theirs, their_field) \
  static_assert(offsetof(ours, our_field) == offsetof(theirs, their_field), #theirs "::" #their_field)
#define CUDAEP_SAME_WORK(ours, theirs)            \
  CUDAEP_SAME(ours, begin_ns, theirs, start);     \
  CUDAEP_SAME(ours, end_ns, theirs, end);         \
  CUDAEP_SAME(ours, device, theirs, deviceId);    \
  CUDAEP_SAME(ours, stream, theirs, streamId);    \
  CUDAEP_SAME(ours, call, theirs, correlationId); \
  CUDAEP_SAME(ours, graph_node, theirs, graphNodeId)
CUDAEP_SAME_WORK(KernelRecord, CUpti_ActivityKernel10);
CUDAEP_SAME(KernelRecord, name, CUpti_ActivityKernel10, name);
CUDAEP_SAME_WORK(CopyRecord, CUpti_ActivityMemcpy6);
CUDAEP_SAME(CopyRecord, bytes, CUpti_ActivityMemcpy6, bytes);
CUDAEP_SAME_WORK(CopyRecord, CUpti_ActivityMemset4);
CUDAEP_SAME(CopyRecord, bytes, CUpti_ActivityMemset4, bytes);
CUDAEP_SAME_WORK(PeerCopyRecord, CUpti_ActivityMemcpyPtoP4);
CUDAEP_SAME(PeerCopyRecord, bytes, CUpti_ActivityMemcpyPtoP4, bytes);
CUDAEP_SAME(CorrelationRecord, scope_kind, CUpti_ActivityExternalCorrelation, externalKind);
CUDAEP_SAME(CorrelationRecord, id, CUpti_ActivityExternalCorrelation, externalId);
CUDAEP_SAME(CorrelationRecord, call, CUpti_ActivityExternalCorrelation, correlationId);
#define CUDAEP_EQUAL(ours, theirs) static_assert(static_cast<int>(ours) == static_cast<int>(theirs))
CUDAEP_EQUAL(kCopy, CUPTI_ACTIVITY_KIND_MEMCPY);
CUDAEP_EQUAL(kFill, CUPTI_ACTIVITY_KIND_MEMSET);
CUDAEP_EQUAL(kDriverCall, CUPTI_ACTIVITY_KIND_DRIVER);
CUDAEP_EQUAL(kRuntimeCall, CUPTI_ACTIVITY_KIND_RUNTIME);
CUDAEP_EQUAL(kKernel, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
CUDAEP_EQUAL(kPeerCopy, CUPTI_ACTIVITY_KIND_MEMCPY2);
CUDAEP_EQUAL(kCorrelation, CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION);
CUDAEP_EQUAL(kOurScopes, CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2);
CUDAEP_EQUAL(kEndOfBuffer, CUPTI_ERROR_MAX_LIMIT_REACHED);
CUDAEP_EQUAL(kFlushForced, CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
CUDAEP_EQUAL(kInsufficientPrivileges, CUPTI_ERROR_INSUFFICIENT_PRIVILEGES);
CUDAEP_EQUAL(kOtherSubscriber, CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
#undef CUDAEP_EQUAL
#undef CUDAEP_SAME_WORK
#undef CUDAEP_SAME
#endif

}  // namespace

Result<const Api*> Cupti() { return loaded.Get(); }

Status ToStatus(const Api& api, Code code, std::string_view call) {
  if (code == kSuccess) return Status::Ok();
  if (code == kOtherSubscriber) {
    return FailedPrecondition(
        "another tool of this process (nsys, ncu, torch.profiler) uses CUPTI, which serves one "
        "at a time");
  }
  const char* text = nullptr;
  if (api.cuptiGetResultString(code, &text) != kSuccess || text == nullptr) text = "unknown error";
  if (code == kInsufficientPrivileges) {
    return FailedPrecondition(call, ": ", text, "; the driver lets administrators profile alone: load it with ",
                              "NVreg_RestrictProfilingToAdminUsers=0");
  }
  return Status(StatusCode::kDeviceError, StrCat(call, ": ", text, " (", code, ')'));
}

}  // namespace cudaep::cupti
