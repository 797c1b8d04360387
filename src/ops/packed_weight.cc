#include "ops/packed_weight.h"

#include "core/log.h"
#include "memory/allocation_label.h"

namespace cudaep::ops {
namespace {

Result<std::shared_ptr<void>> Pack(const Operator& op, int index, const TensorView& weight, size_t bytes,
                                   StreamContext& stream) {
  const std::shared_ptr<memory::Allocator> weights = stream.memory()->weights();
  CUDAEP_ASSIGN_OR_RETURN(void* const pointer, weights->Reserve(bytes));
  std::shared_ptr<void> packed(pointer, [weights](void* block) { weights->Free(block); });
  const Status status = op.Pack(index, weight, pointer, stream);
  if (status.ok()) return packed;
  device::StreamSynchronize(stream.stream()).IgnoreError();  // a part may be queued
  return status;
}

}  // namespace

Result<std::shared_ptr<void>> PackWeight(const Operator& op, int index, const TensorView& weight, size_t bytes,
                                         const char* label, StreamContext& stream) {
  const memory::LabelScope scope(label);
  Result<std::shared_ptr<void>> packed = Pack(op, index, weight, bytes, stream);
  if (packed.ok()) return packed;
  Status status = std::move(packed).status().WithContext(label);
  if (status.code() == StatusCode::kOutOfMemory) {
    Log(LogLevel::kWarning, "a weight is used as it is, since there is no memory to pack it: ", status.message());
    return std::shared_ptr<void>();
  }
  if (status.code() == StatusCode::kNotSupported) return std::shared_ptr<void>();
  return status;
}

}  // namespace cudaep::ops
