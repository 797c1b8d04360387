#include "lib/cuda/cudnn_api.h"

#include "core/strings.h"
#include "lib/cuda/cublaslt_api.h"

namespace cudaep::dnn {
namespace {

constexpr std::string_view kWheelFolders[] = {"nvidia/cudnn/lib"};
constexpr lib::LibrarySpec kSpec{"cuDNN", "libcudnn.so.9", "cudnnGetVersion",
                                 90000,   kWheelFolders,   "pip install nvidia-cudnn-cu13"};

constexpr std::string_view kNvrtcFolders[] = {"nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"};
constexpr lib::LibrarySpec kNvrtc{"NVRTC", "libnvrtc.so.13", nullptr,
                                  0,       kNvrtcFolders,    "pip install nvidia-cuda-nvrtc"};

// cuDNN opens these two by bare name, late, and only beside itself or through the linker's folders. Opened here first,
// they are found wherever they lie. Without them cuDNN works with fewer engines, so that failures do not matter.
void OpenHelpers(const CudnnApi& api) {
  if (api.cudnnGetCudartVersion() / 1000 != 13) return;
  blas::CublasLt().status().IgnoreError();
  lib::LoadLibrary(kNvrtc).status().IgnoreError();
}

Status Load(CudnnApi* api) {
  CUDAEP_ASSIGN_OR_RETURN(api->library, lib::LoadLibrary(kSpec));
#define CUDAEP_BIND(symbol) \
  CUDAEP_RETURN_IF_ERROR(lib::BindSymbol(api->library, #symbol, reinterpret_cast<void**>(&api->symbol)));
  CUDAEP_CUDNN_SYMBOLS(CUDAEP_BIND)
#undef CUDAEP_BIND
  OpenHelpers(*api);
  return Status::Ok();
}

constinit lib::LazyApi<CudnnApi> api{Load};

StatusCode CodeOf(cudnnStatus_t status) {
  switch (status) {
    case CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED:
    case CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH:
      return StatusCode::kLibraryMissing;
    case CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED:
    case CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED:
      return StatusCode::kOutOfMemory;
    default:
      break;
  }
  switch (CUDNN_STATUS_CATEGORY(status)) {
    case CUDNN_STATUS_BAD_PARAM:
      return StatusCode::kInvalidArgument;
    case CUDNN_STATUS_NOT_SUPPORTED:
      return StatusCode::kNotSupported;
    default:
      return StatusCode::kDeviceError;
  }
}

}  // namespace

Result<const CudnnApi*> Cudnn() { return api.Get(); }

const CudnnApi* LoadedCudnn() { return api.loaded(); }

Status ToStatus(const CudnnApi& table, cudnnStatus_t status, std::string_view call) {
  if (status == CUDNN_STATUS_SUCCESS) [[likely]]
    return Status::Ok();
  char reason[512] = "";
  table.cudnnGetLastErrorString(reason, sizeof(reason));
  return Status(CodeOf(status), StrCat(call, ": ", std::string_view(table.cudnnGetErrorString(status)), " (",
                                       static_cast<int>(status), ") ", std::string_view(reason)));
}

}  // namespace cudaep::dnn
