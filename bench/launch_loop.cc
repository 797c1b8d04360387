// The floor under the host cost of a node: the same small kernel launched in a bare loop.
#include <chrono>

#include "kernels/elementwise/binary.h"

namespace {

using cudaep::Status;
namespace device = cudaep::device;

Status Loop(int launches, double* us) {
  device::UniqueStream stream;
  device::UniqueDeviceMemory memory;
  CUDAEP_RETURN_IF_ERROR(device::StreamCreate(stream.Receive()));
  CUDAEP_RETURN_IF_ERROR(device::Malloc(memory.Receive(), 4096));
  const int64_t dims[] = {16};
  CUDAEP_ASSIGN_OR_RETURN(const auto broadcast, cudaep::kernels::MakeBroadcast<2>(dims, {dims, dims}));
  const auto add = cudaep::kernels::FindBinaryKernel("Add", cudaep::DataType::kFloat);
  const cudaep::kernels::BinaryArgs args{
      .a = memory.get(), .b = memory.get(), .y = static_cast<char*>(memory.get()) + 1024, .broadcast = &broadcast};
  CUDAEP_RETURN_IF_ERROR(add(args, stream.get()));
  CUDAEP_RETURN_IF_ERROR(device::StreamSynchronize(stream.get()));
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < launches; ++i) {
    CUDAEP_RETURN_IF_ERROR(add(args, stream.get()));
  }
  CUDAEP_RETURN_IF_ERROR(device::StreamSynchronize(stream.get()));
  *us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count() / launches;
  return Status::Ok();
}

}  // namespace

// Microseconds a launch, from the first to the end of the last; negative on failure.
extern "C" __attribute__((visibility("default"))) double LaunchLoopUs(int launches) {
  double us = 0;
  return Loop(launches, &us).ok() ? us : -1;
}
