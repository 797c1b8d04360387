#include "runtime/graph_capture.h"

#include <mutex>

namespace cudaep {

using memory::BudgetKind;

GraphCapture::~GraphCapture() {
  device::UniqueGraph dropped;
  if (is_on()) End(dropped.Receive()).IgnoreError();
}

Status GraphCapture::Begin(device::Stream stream) {
  stream_ = stream;
  turn_.emplace();
  const std::unique_lock lock(memory::RecordMutex());
  Status status = device::StreamBeginCapture(stream_, device::CaptureMode::kThreadLocal);
  if (!status.ok()) turn_.reset();
  return status;
}

Status GraphCapture::End(device::Graph* graph) {
  Status ended = device::StreamEndCapture(stream_, graph);
  turn_.reset();
  return ended;
}

LaunchableGraph& LaunchableGraph::operator=(LaunchableGraph&& other) noexcept {
  if (this == &other) return *this;
  Reset();
  exec_ = std::move(other.exec_);
  memory_ = std::move(other.memory_);
  charged_bytes_ = std::exchange(other.charged_bytes_, 0);
  tally_ = std::move(other.tally_);
  return *this;
}

Status LaunchableGraph::Make(GraphKind kind, device::Graph graph, std::shared_ptr<memory::DeviceMemory> memory) {
  size_t nodes = 0;
  CUDAEP_RETURN_IF_ERROR(device::GraphNodeCount(graph, &nodes));
  if (nodes == 0) return Status::Ok();
  const size_t bytes = nodes * kBytesPerNode;
  if (!memory->budget().TryCharge(BudgetKind::kGraphs, bytes)) {
    return OutOfMemory("a CUDA graph of ", nodes, " nodes takes about ", bytes, " bytes of device memory; ",
                       memory->budget().Describe());
  }
  memory_ = std::move(memory);
  charged_bytes_ = bytes;
  device::UniqueGraphExec exec;
  Status made = device::GraphInstantiate(exec.Receive(), graph);
  if (!made.ok()) {
    Reset();
    return made;
  }
  tally_ = std::make_unique<GraphTally>(kind, memory_->config().ordinal, bytes);
  exec_ = std::move(exec);  // last: a graph that is launched has a tally
  return Status::Ok();
}

void LaunchableGraph::Reset() {
  exec_.Reset();
  tally_.reset();
  if (memory_ != nullptr) memory_->budget().Release(BudgetKind::kGraphs, std::exchange(charged_bytes_, 0));
  memory_.reset();
}

}  // namespace cudaep
