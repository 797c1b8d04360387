#include "runtime/own_stream.h"

#include "memory/memory_registry.h"

namespace cudaep {

Status OnOwnStream(const std::shared_ptr<memory::DeviceMemory>& memory,
                   const std::function<Status(StreamContext&)>& work) {
  device::UniqueStream stream;
  CUDAEP_RETURN_IF_ERROR(device::StreamCreate(stream.Receive()));
  Status worked, done;
  {
    StreamContext context(memory, stream.get());
    worked = work(context);
    done = device::StreamSynchronize(stream.get());
  }
  memory::StreamEnded(memory->config().ordinal, stream.get());
  return worked.ok() ? done : worked;
}

}  // namespace cudaep
