#include "runtime/stream_table.h"

namespace cudaep {

Status StreamTable::Add(StreamContext* context) {
  std::lock_guard lock(mutex_);
  Slot* free = nullptr;
  size_t i = SlotOf(context->stream());
  for (size_t probes = 0; probes < kCapacity; i = (i + 1) % kCapacity, ++probes) {
    Slot& slot = slots_[i];
    const device::Stream key = slot.key.load(std::memory_order_relaxed);
    if (key == context->stream()) {
      slot.context.store(context);
      return Status::Ok();
    }
    if (key == Gone() && free == nullptr) free = &slot;
    if (key == Never()) {
      if (free == nullptr) free = &slot;
      break;
    }
  }
  if (free == nullptr) return FailedPrecondition("more than ", kCapacity, " streams are alive in one session");
  free->context.store(context, std::memory_order_relaxed);
  free->key.store(context->stream(), std::memory_order_release);
  return Status::Ok();
}

void StreamTable::Remove(StreamContext* context) {
  std::lock_guard lock(mutex_);
  for (Slot& slot : slots_) {
    if (slot.key.load(std::memory_order_relaxed) == context->stream() && slot.context.load() == context) {
      slot.key.store(Gone(), std::memory_order_release);
      slot.context.store(nullptr);
      return;
    }
  }
}

std::vector<device::Stream> StreamTable::Streams() {
  std::lock_guard lock(mutex_);
  std::vector<device::Stream> streams;
  for (const Slot& slot : slots_) {
    const device::Stream key = slot.key.load(std::memory_order_relaxed);
    if (key != Never() && key != Gone()) streams.push_back(key);
  }
  return streams;
}

}  // namespace cudaep
