// An allocator that hands every call to another one; the base of adaptors, which override what they change.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "memory/allocator.h"

namespace cudaep::memory {

class ForwardingAllocator : public Allocator {
 public:
  explicit ForwardingAllocator(std::shared_ptr<Allocator> inner) : inner_(std::move(inner)) {}

  Result<void*> Allocate(size_t bytes) override { return inner_->Allocate(bytes); }
  Result<void*> AllocateOnStream(size_t bytes, device::Stream stream) override {
    return inner_->AllocateOnStream(bytes, stream);
  }
  Result<void*> Reserve(size_t bytes) override { return inner_->Reserve(bytes); }
  void Free(void* pointer) override { inner_->Free(pointer); }
  void AddStream(device::Stream stream) override { inner_->AddStream(stream); }
  void ExpectCaptures(device::Stream stream) override { inner_->ExpectCaptures(stream); }
  Status BelongToGraph(device::Stream stream) override { return inner_->BelongToGraph(stream); }
  void ReleaseStream(device::Stream stream) override { inner_->ReleaseStream(stream); }
  StreamMark Mark(device::Stream stream) override { return inner_->Mark(stream); }
  void Reached(const StreamMark& mark) override { inner_->Reached(mark); }
  bool Owns(const void* pointer) const override { return inner_->Owns(pointer); }
  void UsedOn(const void* pointer, device::Stream stream) override { inner_->UsedOn(pointer, stream); }
  Status Shrink() override { return inner_->Shrink(); }
  AllocatorStats Stats() const override { return inner_->Stats(); }
  std::vector<MemoryUser> LargestUsers(size_t most) const override { return inner_->LargestUsers(most); }

 protected:
  Allocator& inner() const { return *inner_; }

 private:
  const std::shared_ptr<Allocator> inner_;
};

}  // namespace cudaep::memory
