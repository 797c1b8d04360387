#include "abi/moved_inputs.h"

#include "abi/host_tensor.h"
#include "device/device.h"
#include "runtime/captured_copy.h"

namespace cudaep::abi {

bool IsReadable(const OrtValue* value, bool on_host) {
  const OrtMemoryDevice* memory = Host().ep->Value_GetMemoryDevice(value);
  return on_host ? !IsInDeviceMemory(memory) : !IsHost(memory);
}

Result<std::shared_ptr<void>> CopyToHost(const ops::TensorView& view, device::Stream stream) {
  const size_t bytes = view.bytes();
  std::shared_ptr<void> copy(::operator new(bytes), [](void* memory) { ::operator delete(memory); });
  CUDAEP_RETURN_IF_ERROR(RefuseCapturedPageable(copy.get(), stream));
  CUDAEP_RETURN_IF_ERROR(device::MemcpyAsync(copy.get(), view.data, bytes, stream));
  CUDAEP_RETURN_IF_ERROR(device::StreamSynchronize(stream));
  return copy;
}

// Work that uses the memory is queued by now.
MovedInputs::~MovedInputs() {
  for (void* block : on_device_) stream_.memory()->tensors()->Free(block);
}

Status MovedInputs::Bring(const OrtValue* value, bool on_host, ops::TensorView* view) {
  if (!view->present() || view->elems() == 0 || IsReadable(value, on_host)) return Status::Ok();
  if (!on_host) return BringToDevice(view);
  CUDAEP_ASSIGN_OR_RETURN(on_host_.emplace_back(), CopyToHost(*view, stream_.stream()));
  view->data = on_host_.back().get();
  return Status::Ok();
}

// The copy has read its pageable source when it returns.
Status MovedInputs::BringToDevice(ops::TensorView* view) {
  const size_t bytes = view->bytes();
  CUDAEP_RETURN_IF_ERROR(RefuseCapturedPageable(view->data, stream_.stream()));
  CUDAEP_ASSIGN_OR_RETURN(void* const block, stream_.memory()->tensors()->AllocateOnStream(bytes, stream_.stream()));
  on_device_.push_back(block);
  CUDAEP_RETURN_IF_ERROR(device::MemcpyAsync(block, view->data, bytes, stream_.stream()));
  view->data = block;
  return Status::Ok();
}

}  // namespace cudaep::abi
