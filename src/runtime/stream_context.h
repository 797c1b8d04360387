// Everything that belongs to one stream: the stream itself, its library handles and its scratch memory.
//
// This is what operators get instead of looking anything up. Handles come from the device's pool when the stream is
// made (TakeHandles) and go back when the context ends. Ownership: owns handles and scratch; shares the device's
// memory. The stream belongs to somebody else (a user's stream is never destroyed) and must outlive the context.
// Threads: one thread at a time.
#pragma once

#include <atomic>
#include <memory>

#include "core/shape.h"
#include "device/device_info.h"
#include "lib/comm.h"
#include "runtime/copy_stream.h"
#include "runtime/library_handles.h"
#include "runtime/library_set.h"
#include "runtime/plan_pins.h"
#include "runtime/stream_graphs.h"
#include "runtime/tickets.h"
#include "runtime/workspace.h"

namespace cudaep {

class ReplayedNodes;

class StreamContext {
 public:
  StreamContext(std::shared_ptr<memory::DeviceMemory> memory, device::Stream stream)
      : memory_(memory),
        device_(*device::GetDeviceInfo(memory->config().ordinal).value()),
        stream_(stream),
        workspace_(memory, stream),
        tickets_(std::move(memory), stream) {}
  // With the default memory of device `ordinal`, outside any session.
  StreamContext(int ordinal, device::Stream stream);
  StreamContext(const StreamContext&) = delete;
  StreamContext& operator=(const StreamContext&) = delete;

  int ordinal() const { return memory_->config().ordinal; }
  const device::DeviceInfo& device_info() const { return device_; }
  device::Stream stream() const { return stream_; }
  Workspace& workspace() { return workspace_; }
  Tickets& tickets() { return tickets_; }
  PlanPins& plan_pins() { return plan_pins_; }
  // CUDA graphs that operators launch here.
  StreamGraphs& graphs() { return graphs_; }
  // The table of the CUDA graph that a Run is captured into here; null outside such a capture.
  ReplayedNodes* captured_nodes() const { return captured_nodes_; }
  void SetCapturedNodes(ReplayedNodes* nodes) { captured_nodes_ = nodes; }
  // Room for the output shapes of the call that the stream is in.
  std::vector<Shape>& shapes() { return shapes_; }
  // Copies device memory to the host and waits for all work queued so far.
  Status ReadBack(const void* device_source, size_t bytes, void* destination);
  // Page-locked memory for copies.
  memory::Allocator& pinned() const { return *memory_->pinned(); }
  // Where a library's own allocations (timing of plans) have to fit.
  const memory::Budget& budget() const { return memory_->budget(); }

  const std::shared_ptr<memory::DeviceMemory>& memory() const { return memory_; }

  // Takes the handles that the stream's operators will use, so that no Run makes one. A library that cannot be loaded
  // is no error here: operators that can do without it do.
  Status TakeHandles(LibrarySet libraries);

  // The stream's handles. Outside of sessions, where nobody called TakeHandles, they are taken at first use.
  // kLibraryMissing where the library cannot be loaded.
  Result<blas::Handle*> blas() {
    if (blas_.get() != nullptr) [[likely]]
      return blas_.get();
    return TakeBlas();
  }
  Result<dnn::Handle*> dnn() {
    if (dnn_.get() != nullptr) [[likely]]
      return dnn_.get();
    return TakeDnn();
  }
  // The session's communicator, which lives as long as it; null outside of sessions with collective operators.
  comm::Communicator* communicator() const { return communicator_; }
  void SetCommunicator(comm::Communicator* communicator) { communicator_ = communicator; }
  // Created at first use.
  Result<CopyStream*> copies();

  // Copies into pinned memory, which return before they are done: numbered as they are queued, done up to a number that
  // somebody has waited for. These may be called from any thread.
  void HostCopyQueued() { copies_queued_.fetch_add(1, std::memory_order_relaxed); }
  uint64_t host_copies_queued() const { return copies_queued_.load(std::memory_order_relaxed); }
  void HostCopiesDone(uint64_t number) {
    if (number > copies_done_.load(std::memory_order_relaxed)) copies_done_.store(number, std::memory_order_relaxed);
  }
  bool HostCopiesPending() const { return copies_done_.load(std::memory_order_relaxed) != host_copies_queued(); }

 private:
  Result<blas::Handle*> TakeBlas();
  Result<dnn::Handle*> TakeDnn();

  const std::shared_ptr<memory::DeviceMemory> memory_;
  const device::DeviceInfo& device_;
  const device::Stream stream_;
  Workspace workspace_;
  Tickets tickets_;
  PlanPins plan_pins_;
  StreamGraphs graphs_;
  ReplayedNodes* captured_nodes_ = nullptr;
  std::vector<Shape> shapes_;
  device::UniquePinnedMemory read_back_;
  HandleLease<blas::Handle> blas_;
  HandleLease<dnn::Handle> dnn_;
  comm::Communicator* communicator_ = nullptr;
  CopyStream copies_;
  std::atomic<uint64_t> copies_queued_{0}, copies_done_{0};
};

}  // namespace cudaep
