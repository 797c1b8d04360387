#include "runtime/own_stream.h"

#include "memory/memory_registry.h"

namespace cudaep {

Status OnOwnStream(const std::shared_ptr<memory::DeviceMemory>& memory,
                   const std::function<Status(StreamContext&)>& work) {
  device::UniqueStream stream;
  CUDAEP_RETURN_IF_ERROR(device::StreamCreate(stream.Receive()));
  // Whatever `work` throws: what is queued is waited for, then the context ends, then all memory is told.
  struct End {
    int ordinal;
    device::Stream stream;
    ~End() { memory::StreamEnded(ordinal, stream); }
  } const end{memory->config().ordinal, stream.get()};
  StreamContext context(memory, stream.get());
  struct Wait {
    device::Stream stream;
    Status& done;
    ~Wait() { done = device::StreamSynchronize(stream); }
  };
  Status worked, done;
  {
    const Wait wait{stream.get(), done};
    worked = work(context);
  }
  return worked.ok() ? done : worked;
}

}  // namespace cudaep
