#include "device/graph_nodes.h"

#include <unordered_map>

#include "device/cuda/errors.h"

namespace cudaep::device {
namespace {

// The nodes one after the other where the edges make one chain of all of them; empty otherwise.
std::vector<cudaGraphNode_t> ChainOf(const std::vector<cudaGraphNode_t>& nodes,
                                     const std::vector<cudaGraphNode_t>& from, const std::vector<cudaGraphNode_t>& to) {
  std::unordered_map<cudaGraphNode_t, cudaGraphNode_t> next, previous;
  for (size_t i = 0; i < from.size(); ++i) {
    if (!next.emplace(from[i], to[i]).second || !previous.emplace(to[i], from[i]).second) return {};
  }
  std::vector<cudaGraphNode_t> chain;
  for (cudaGraphNode_t node : nodes) {
    if (previous.contains(node)) continue;
    if (!chain.empty()) return {};
    chain.push_back(node);
  }
  while (!chain.empty() && chain.size() < nodes.size()) {
    const auto after = next.find(chain.back());
    if (after == next.end()) return {};
    chain.push_back(after->second);
  }
  return chain;
}

}  // namespace

Status CapturedNodeCount(Stream stream, size_t* count) {
  cudaStreamCaptureStatus state = cudaStreamCaptureStatusNone;
  cudaGraph_t graph = nullptr;
  CUDAEP_CUDA_RETURN_IF_ERROR(cudaStreamGetCaptureInfo(reinterpret_cast<cudaStream_t>(stream), &state, nullptr, &graph,
                                                       nullptr, nullptr, nullptr));
  if (state != cudaStreamCaptureStatusActive) return FailedPrecondition("the stream is not capturing");
  return CUDAEP_CUDA_STATUS(cudaGraphGetNodes(graph, nullptr, count));
}

Status GetGraphNodes(Graph graph, GraphNodes* nodes) {
  const auto native = reinterpret_cast<cudaGraph_t>(graph);
  size_t count = 0, edges = 0;
  CUDAEP_CUDA_RETURN_IF_ERROR(cudaGraphGetNodes(native, nullptr, &count));
  std::vector<cudaGraphNode_t> all(count);
  CUDAEP_CUDA_RETURN_IF_ERROR(cudaGraphGetNodes(native, all.data(), &count));
  CUDAEP_CUDA_RETURN_IF_ERROR(cudaGraphGetEdges(native, nullptr, nullptr, nullptr, &edges));
  std::vector<cudaGraphNode_t> from(edges), to(edges);
  // Programmatic edges carry data, without room for which the call would fail.
  std::vector<cudaGraphEdgeData> data(edges);
  CUDAEP_CUDA_RETURN_IF_ERROR(cudaGraphGetEdges(native, from.data(), to.data(), data.data(), &edges));
  const std::vector<cudaGraphNode_t> chain = ChainOf(all, from, to);
  nodes->is_chain = chain.size() == all.size();
  nodes->traced.clear();
  if (!nodes->is_chain) return Status::Ok();
  for (cudaGraphNode_t node : chain) {
    cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
    CUDAEP_CUDA_RETURN_IF_ERROR(cudaGraphNodeGetType(node, &type));
    nodes->traced.push_back(type == cudaGraphNodeTypeKernel || type == cudaGraphNodeTypeMemcpy ||
                            type == cudaGraphNodeTypeMemset);
  }
  return Status::Ok();
}

}  // namespace cudaep::device
