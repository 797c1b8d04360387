#include "graph/exec/weight_store.h"

namespace cudaep::graph {

Result<std::shared_ptr<void>> WeightStore::OnDevice(const ir::Value& constant, StreamContext& stream) {
  if (constant.is_initializer) {
    if (std::shared_ptr<void> held = known_[constant.name].lock()) return held;
  }
  const std::shared_ptr<memory::Allocator> weights = stream.memory()->weights();
  const size_t bytes = constant.constant.bytes();
  CUDAEP_ASSIGN_OR_RETURN(void* const block, weights->Reserve(bytes));
  std::shared_ptr<void> made(block, [weights](void* memory) { weights->Free(memory); });
  CUDAEP_RETURN_IF_ERROR(device::MemcpyAsync(block, constant.constant.data, bytes, stream.stream()));
  if (constant.is_initializer) known_[constant.name] = made;
  return made;
}

}  // namespace cudaep::graph
