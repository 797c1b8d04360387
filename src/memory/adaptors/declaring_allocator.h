// Tells the device layer which blocks of its memory an allocator has handed out (device::DeclareBlock): the simulated
// device then finds uses of memory that was freed into an arena, or that belongs to nobody there.
//
// Only where blocks are checked is there an adaptor at all. Threads: any.
#pragma once

#include <memory>
#include <utility>

#include "device/blocks.h"
#include "memory/adaptors/forwarding_allocator.h"

namespace cudaep::memory {

class DeclaringAllocator final : public ForwardingAllocator {
 public:
  using ForwardingAllocator::ForwardingAllocator;

  // `allocator` itself where nobody checks.
  static std::shared_ptr<Allocator> Wrap(std::shared_ptr<Allocator> allocator) {
    if constexpr (!device::kChecksBlocks) return allocator;
    return std::make_shared<DeclaringAllocator>(std::move(allocator));
  }

  Result<void*> Allocate(size_t bytes) override { return Declared(inner().Allocate(bytes), bytes); }
  Result<void*> AllocateOnStream(size_t bytes, device::Stream stream) override {
    Result<void*> pointer = inner().AllocateOnStream(bytes, stream);
    if (pointer.ok() && pointer.value() != nullptr) device::DeclareBlock(pointer.value(), bytes, stream);
    return pointer;
  }
  Result<void*> Reserve(size_t bytes) override { return Declared(inner().Reserve(bytes), bytes); }
  // Before the memory can be somebody else's.
  void Free(void* pointer) override {
    device::ForgetBlock(pointer);
    inner().Free(pointer);
  }

 private:
  static Result<void*> Declared(Result<void*> pointer, size_t bytes) {
    if (pointer.ok() && pointer.value() != nullptr) device::DeclareBlock(pointer.value(), bytes);
    return pointer;
  }
};

}  // namespace cudaep::memory
