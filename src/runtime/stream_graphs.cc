#include "runtime/stream_graphs.h"

#include <optional>

#include "memory/memory_registry.h"
#include "runtime/stream_context.h"

namespace cudaep {

struct StreamGraphs::Capturer {
  Capturer(const StreamContext& target, device::UniqueStream own)
      : ordinal(target.ordinal()), stream(std::move(own)), context(std::in_place, target.memory(), stream.get()) {}
  ~Capturer() {
    context.reset();
    memory::StreamEnded(ordinal, stream.get());
  }
  Capturer(const Capturer&) = delete;
  Capturer& operator=(const Capturer&) = delete;

  const int ordinal;
  const device::UniqueStream stream;
  std::optional<StreamContext> context;
};

StreamGraphs::StreamGraphs() = default;
StreamGraphs::~StreamGraphs() = default;

std::shared_ptr<CallGraphs> StreamGraphs::Add(uint64_t op) {
  std::erase_if(all_, [](const auto& entry) { return entry.second->is_dropped(); });
  return all_.emplace_back(op, std::make_shared<CallGraphs>()).second;
}

Result<StreamContext*> StreamGraphs::CaptureContext(StreamContext& target, LibrarySet libraries) {
  if (capturer_ == nullptr) {
    device::UniqueStream stream;
    CUDAEP_RETURN_IF_ERROR(device::StreamCreate(stream.Receive()));
    capturer_ = std::make_unique<Capturer>(target, std::move(stream));
  }
  StreamContext& context = *capturer_->context;
  CUDAEP_RETURN_IF_ERROR(context.TakeHandles(libraries));
  context.tickets().Share(target.tickets());
  return &context;
}

}  // namespace cudaep
