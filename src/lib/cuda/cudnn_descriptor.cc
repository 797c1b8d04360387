#include "lib/cuda/cudnn_descriptor.h"

#include "core/strings.h"

namespace cudaep::dnn {

DescriptorBuilder::DescriptorBuilder(const CudnnApi& api, cudnnBackendDescriptorType_t type, std::string_view what)
    : api_(api), what_(what) {
  status_ = ToStatus(api_, api_.cudnnBackendCreateDescriptor(type, descriptor_.Receive()), what_);
}

DescriptorBuilder& DescriptorBuilder::SetRaw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                                             int64_t count, const void* values) {
  if (!status_.ok()) return *this;
  const cudnnStatus_t status = api_.cudnnBackendSetAttribute(descriptor_.get(), name, type, count, values);
  if (status != CUDNN_STATUS_SUCCESS) {
    status_ = ToStatus(api_, status, StrCat(what_, ", attribute ", static_cast<int>(name)));
  }
  return *this;
}

Result<Descriptor> DescriptorBuilder::Finish() {
  if (status_.ok()) status_ = ToStatus(api_, api_.cudnnBackendFinalize(descriptor_.get()), what_);
  if (!status_.ok()) return std::move(status_);
  return std::move(descriptor_);
}

Result<Descriptor> CreateDescriptor(const CudnnApi& api, cudnnBackendDescriptorType_t type) {
  Descriptor descriptor;
  CUDAEP_RETURN_IF_ERROR(
      ToStatus(api, api.cudnnBackendCreateDescriptor(type, descriptor.Receive()), "cudnnBackendCreateDescriptor"));
  return descriptor;
}

}  // namespace cudaep::dnn
