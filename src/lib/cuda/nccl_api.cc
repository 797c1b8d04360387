#include "lib/cuda/nccl_api.h"

#include "core/strings.h"

#if defined(CUDAEP_COMPARE_WITH_NCCL_HEADER) && __has_include(<nccl.h>)
#define CUDAEP_HAS_NCCL_HEADER
#include <nccl.h>
#endif

namespace cudaep::nccl {
namespace {

constexpr std::string_view kWheelFolders[] = {"nvidia/nccl/lib"};
// Without a version symbol: NCCL's has another signature.
constexpr lib::LibrarySpec kSpec{"NCCL", "libnccl.so.2", nullptr, 0, kWheelFolders, "pip install nvidia-nccl-cu13"};
constexpr int kMinimumVersion = 21400;  // communicators that do not block

Status Load(Api* api) {
  CUDAEP_ASSIGN_OR_RETURN(api->library, lib::LoadLibrary(kSpec));
#define CUDAEP_BIND(name, parameters) \
  CUDAEP_RETURN_IF_ERROR(lib::BindSymbol(api->library, #name, reinterpret_cast<void**>(&api->name)));
  CUDAEP_NCCL_FUNCTIONS(CUDAEP_BIND)
  CUDAEP_BIND(ncclGetErrorString, )
  CUDAEP_BIND(ncclGetLastError, )
#undef CUDAEP_BIND
  int version = 0;
  if (api->ncclGetVersion(&version) != kSuccess || version < kMinimumVersion) {
    return Status(StatusCode::kLibraryMissing,
                  StrCat(api->library.path, " is NCCL ", version, "; ", kMinimumVersion, " or newer is needed"));
  }
  api->library.version = static_cast<size_t>(version);
  return Status::Ok();
}

constinit lib::LazyApi<Api> loaded{Load};

#ifdef CUDAEP_HAS_NCCL_HEADER
#define CUDAEP_EQUAL(ours, theirs) static_assert(static_cast<int>(ours) == static_cast<int>(theirs))
CUDAEP_EQUAL(kSuccess, ncclSuccess);
CUDAEP_EQUAL(kInProgress, ncclInProgress);
CUDAEP_EQUAL(kInt8, ncclInt8);
CUDAEP_EQUAL(kUint8, ncclUint8);
CUDAEP_EQUAL(kInt32, ncclInt32);
CUDAEP_EQUAL(kUint32, ncclUint32);
CUDAEP_EQUAL(kInt64, ncclInt64);
CUDAEP_EQUAL(kUint64, ncclUint64);
CUDAEP_EQUAL(kFloat16, ncclFloat16);
CUDAEP_EQUAL(kFloat32, ncclFloat32);
CUDAEP_EQUAL(kFloat64, ncclFloat64);
CUDAEP_EQUAL(kBFloat16, ncclBfloat16);
CUDAEP_EQUAL(kSum, ncclSum);
CUDAEP_EQUAL(kProduct, ncclProd);
CUDAEP_EQUAL(kMax, ncclMax);
CUDAEP_EQUAL(kMin, ncclMin);
CUDAEP_EQUAL(kAverage, ncclAvg);
CUDAEP_EQUAL(sizeof(UniqueId), sizeof(ncclUniqueId));
CUDAEP_EQUAL(offsetof(Config, magic), offsetof(ncclConfig_t, magic));
CUDAEP_EQUAL(offsetof(Config, version), offsetof(ncclConfig_t, version));
CUDAEP_EQUAL(offsetof(Config, blocking), offsetof(ncclConfig_t, blocking));
static_assert(INT_MIN == NCCL_CONFIG_UNDEF_INT);
#undef CUDAEP_EQUAL
#endif

}  // namespace

Result<const Api*> Nccl() { return loaded.Get(); }

Status ToStatus(const Api& api, Code code, std::string_view call) {
  if (code == kSuccess) return Status::Ok();
  const char* const last = api.ncclGetLastError(nullptr);
  return Status(StatusCode::kDeviceError,
                StrCat(call, ": ", std::string_view(api.ncclGetErrorString(code)), " (", static_cast<int>(code), ')',
                       last == nullptr || *last == '\0' ? "" : StrCat(": ", std::string_view(last))));
}

}  // namespace cudaep::nccl
