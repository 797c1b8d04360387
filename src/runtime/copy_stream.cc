#include "runtime/copy_stream.h"

#include <utility>

namespace cudaep {

Status CopyStream::Create() {
  device::UniqueEvent ready, done;
  CUDAEP_RETURN_IF_ERROR(device::EventCreate(ready.Receive(), device::EventKind::kOrderOnly));
  CUDAEP_RETURN_IF_ERROR(device::EventCreate(done.Receive(), device::EventKind::kOrderOnly));
  CUDAEP_RETURN_IF_ERROR(device::StreamCreate(stream_.Receive()));
  ready_ = std::move(ready);
  done_ = std::move(done);
  return Status::Ok();
}

Result<device::Stream> CopyStream::Begin(device::Stream compute) {
  CUDAEP_RETURN_IF_ERROR(device::EventRecord(ready_.get(), compute));
  CUDAEP_RETURN_IF_ERROR(device::StreamWaitEvent(stream_.get(), ready_.get()));
  return stream_.get();
}

Status CopyStream::End(device::Stream compute) {
  CUDAEP_RETURN_IF_ERROR(device::EventRecord(done_.get(), stream_.get()));
  return device::StreamWaitEvent(compute, done_.get());
}

}  // namespace cudaep
