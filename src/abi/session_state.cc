#include "abi/session_state.h"

namespace cudaep::abi {

Result<StreamContext*> SessionState::Adopt(device::Stream stream) {
  std::lock_guard lock(mutex_);
  if (StreamContext* context = streams_.Find(stream)) return context;
  auto context = std::make_unique<StreamContext>(ordinal(), stream);
  CUDAEP_RETURN_IF_ERROR(streams_.Add(context.get()));
  foreign_.push_back(std::move(context));
  return foreign_.back().get();
}

}  // namespace cudaep::abi
