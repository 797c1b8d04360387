// Work on a stream that lives for it alone, outside any Run: the packing of a weight.
#pragma once

#include <functional>
#include <memory>

#include "runtime/stream_context.h"

namespace cudaep {

// Runs `work` with the stream's context and waits for what it has queued, also when it fails; then all memory of the
// device is told that the stream has ended, so that nobody asks for it again and what was freed there is everybody's.
// The first failure.
Status OnOwnStream(const std::shared_ptr<memory::DeviceMemory>& memory,
                   const std::function<Status(StreamContext&)>& work);

}  // namespace cudaep
