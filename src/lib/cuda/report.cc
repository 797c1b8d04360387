#include "lib/report.h"

#include "core/strings.h"
#include "lib/cuda/cublaslt_api.h"
#include "lib/cuda/cudnn_api.h"

namespace cudaep::lib {
namespace {

template <class Api>
LibraryReport ReportOf(std::string name, const Result<const Api*>& api) {
  if (!api.ok()) return {std::move(name), false, "", "", std::string(api.status().message())};
  const LoadedLibrary& library = api.value()->library;
  return {std::move(name), true, library.path, VersionText(library.version), library.place};
}

}  // namespace

std::vector<LibraryReport> ReportLibraries() {
  std::vector<LibraryReport> reports;
  reports.push_back(ReportOf("cuBLASLt", blas::CublasLt()));
  const Result<const dnn::CudnnApi*> cudnn = dnn::Cudnn();
  reports.push_back(ReportOf("cuDNN", cudnn));
  if (cudnn.ok()) {
    const size_t runtime = cudnn.value()->cudnnGetCudartVersion();
    reports.back().status += StrCat("; built for CUDA ", runtime / 1000, '.', runtime % 1000 / 10);
  }
  return reports;
}

}  // namespace cudaep::lib
