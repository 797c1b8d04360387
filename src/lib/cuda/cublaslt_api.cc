#include "lib/cuda/cublaslt_api.h"

#include "core/strings.h"

namespace cudaep::blas {
namespace {

constexpr std::string_view kWheelFolders[] = {"nvidia/cu13/lib", "nvidia/cublas/lib"};
constexpr lib::LibrarySpec kSpec{"cuBLASLt", "libcublasLt.so.13", "cublasLtGetVersion",
                                 130000,     kWheelFolders,       "pip install nvidia-cublas (CUDA 13)"};

Status Load(CublasLtApi* api) {
  CUDAEP_ASSIGN_OR_RETURN(api->library, lib::LoadLibrary(kSpec));
#define CUDAEP_BIND(symbol) \
  CUDAEP_RETURN_IF_ERROR(lib::BindSymbol(api->library, #symbol, reinterpret_cast<void**>(&api->symbol)));
  CUDAEP_CUBLASLT_SYMBOLS(CUDAEP_BIND)
#undef CUDAEP_BIND
  return Status::Ok();
}

constinit lib::LazyApi<CublasLtApi> api{Load};

}  // namespace

Result<const CublasLtApi*> CublasLt() { return api.Get(); }

const CublasLtApi* LoadedCublasLt() { return api.loaded(); }

Status ToStatus(const CublasLtApi& table, cublasStatus_t status, std::string_view call) {
  if (status == CUBLAS_STATUS_SUCCESS) [[likely]]
    return Status::Ok();
  const std::string text =
      StrCat(call, ": ", std::string_view(table.cublasLtGetStatusString(status)), " (", static_cast<int>(status), ')');
  switch (status) {
    case CUBLAS_STATUS_ALLOC_FAILED:
      return Status(StatusCode::kOutOfMemory, text);
    case CUBLAS_STATUS_NOT_SUPPORTED:
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return Status(StatusCode::kNotSupported, text);
    case CUBLAS_STATUS_INVALID_VALUE:
      return Status(StatusCode::kInvalidArgument, text);
    default:
      return Status(StatusCode::kDeviceError, text);
  }
}

}  // namespace cudaep::blas
