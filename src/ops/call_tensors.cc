#include "ops/call_tensors.h"

#include <utility>
#include <vector>

#include "ops/call_memory.h"
#include "ops/gemm/turned_weight.h"

namespace cudaep::ops {

Status CallWithCopies(StreamContext& stream, std::span<CallTensor> tensors, const std::function<Status()>& call) {
  struct Copy {
    CallTensor* tensor;
    size_t offset;
    void* from;
  };
  CallMemory memory(stream);
  std::vector<Copy> copies;
  for (CallTensor& tensor : tensors) {
    if (tensor.IsCopied()) copies.push_back({&tensor, memory.Add(static_cast<size_t>(tensor.bytes)), nullptr});
  }
  CUDAEP_RETURN_IF_ERROR(memory.Take());
  for (auto& [tensor, offset, from] : copies) {
    void* const to = memory.at(offset);
    from = const_cast<void*>(std::exchange(tensor->at, to));
    if (tensor->turned != nullptr) {
      CUDAEP_RETURN_IF_ERROR(TurnWeight(*tensor->turned, to, stream));
    } else if (!tensor->written) {
      CUDAEP_RETURN_IF_ERROR(device::MemcpyAsync(to, from, static_cast<size_t>(tensor->bytes), stream.stream()));
    }
  }
  CUDAEP_RETURN_IF_ERROR(call());
  for (const auto& [tensor, offset, to] : copies) {
    if (!tensor->written) continue;
    CUDAEP_RETURN_IF_ERROR(device::MemcpyAsync(to, tensor->at, static_cast<size_t>(tensor->bytes), stream.stream()));
  }
  return Status::Ok();
}

}  // namespace cudaep::ops
