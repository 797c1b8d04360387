#include "runtime/stream_context.h"

#include "runtime/handle_pool.h"

namespace cudaep {
namespace {

// Never destroyed: static destructors of the process may run after the driver went away.
HandlePool<blas::Handle>& BlasPool() {
  static auto* pool = new HandlePool<blas::Handle>();
  return *pool;
}
HandlePool<dnn::Handle>& DnnPool() {
  static auto* pool = new HandlePool<dnn::Handle>();
  return *pool;
}

}  // namespace

StreamContext::~StreamContext() {
  BlasPool().Return(ordinal_, std::move(blas_));
  DnnPool().Return(ordinal_, std::move(dnn_));
}

Result<blas::Handle*> StreamContext::blas() {
  if (blas_ == nullptr) {
    blas_ = BlasPool().Take(ordinal_);
    if (blas_ == nullptr) {
      CUDAEP_ASSIGN_OR_RETURN(blas_, blas::CreateHandle());
    }
  }
  return blas_.get();
}

Result<dnn::Handle*> StreamContext::dnn() {
  if (dnn_ == nullptr) {
    std::unique_ptr<dnn::Handle> handle = DnnPool().Take(ordinal_);
    if (handle == nullptr) {
      CUDAEP_ASSIGN_OR_RETURN(handle, dnn::CreateHandle());
    }
    CUDAEP_RETURN_IF_ERROR(dnn::BindStream(*handle, stream_));
    dnn_ = std::move(handle);
  }
  return dnn_.get();
}

}  // namespace cudaep
