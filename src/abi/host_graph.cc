#include "abi/host_graph.h"

namespace cudaep::abi {
namespace {

template <class T>
Result<std::vector<const T*>> ListOf(const OrtGraph* graph, OrtStatus*(ORT_API_CALL* count)(const OrtGraph*, size_t*),
                                     OrtStatus*(ORT_API_CALL* get)(const OrtGraph*, const T**, size_t)) {
  size_t size = 0;
  CUDAEP_RETURN_IF_ORT_ERROR(count(graph, &size));
  std::vector<const T*> list(size);
  CUDAEP_RETURN_IF_ORT_ERROR(get(graph, list.data(), size));
  return list;
}

}  // namespace

Result<std::vector<const OrtNode*>> NodesOf(const OrtGraph* graph) {
  return ListOf<OrtNode>(graph, Host().ort->Graph_GetNumNodes, Host().ort->Graph_GetNodes);
}
Result<std::vector<const OrtValueInfo*>> InputsOf(const OrtGraph* graph) {
  return ListOf<OrtValueInfo>(graph, Host().ort->Graph_GetNumInputs, Host().ort->Graph_GetInputs);
}
Result<std::vector<const OrtValueInfo*>> OutputsOf(const OrtGraph* graph) {
  return ListOf<OrtValueInfo>(graph, Host().ort->Graph_GetNumOutputs, Host().ort->Graph_GetOutputs);
}
Result<std::vector<const OrtValueInfo*>> InitializersOf(const OrtGraph* graph) {
  return ListOf<OrtValueInfo>(graph, Host().ort->Graph_GetNumInitializers, Host().ort->Graph_GetInitializers);
}

}  // namespace cudaep::abi
