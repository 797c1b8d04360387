#include "device/graph_nodes.h"

#include "device/sim/simulator.h"

namespace cudaep::device {

Status CapturedNodeCount(Stream stream, size_t* count) {
  sim::Simulator& simulator = sim::Simulator::Get();
  sim::Lock lock = simulator.Acquire();
  const StreamHandle* target = simulator.Lookup(stream);
  if (target == nullptr || target->capture == nullptr) return FailedPrecondition("the stream is not capturing");
  *count = target->capture->body->nodes.size();
  return Status::Ok();
}

Status GetGraphNodes(Graph graph, GraphNodes* nodes) {
  sim::Simulator& simulator = sim::Simulator::Get();
  sim::Lock lock = simulator.Acquire();
  const auto found = simulator.graphs.find(graph);
  if (found == simulator.graphs.end()) return InvalidArgument("the graph does not exist");
  *nodes = {.traced = {}, .is_chain = true};
  for (const sim::GraphNode& node : found->second->body->nodes) {
    const auto index = static_cast<uint32_t>(nodes->traced.size());
    nodes->is_chain = nodes->is_chain &&
                      (index == 0 ? node.dependencies.empty() : node.dependencies == std::vector<uint32_t>{index - 1});
    const sim::Work& work = *node.work;
    nodes->traced.push_back(work.As<sim::KernelWork>() != nullptr || work.As<sim::LibraryWork>() != nullptr ||
                            work.As<sim::CopyWork>() != nullptr || work.As<sim::FillWork>() != nullptr);
  }
  return Status::Ok();
}

}  // namespace cudaep::device
