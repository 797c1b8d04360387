#include "abi/loop_body.h"

#include "abi/host_graph.h"
#include "abi/ir_reader.h"

namespace cudaep::abi {
namespace {

// With every branch; exported Loops over segments have up to 40.
constexpr size_t kMostNodes = 64;

Result<std::vector<const OrtGraph*>> SubgraphsOf(const OrtNode* node, std::vector<const char*>* attributes) {
  size_t count = 0;
  CUDAEP_RETURN_IF_ORT_ERROR(Host().ort->Node_GetNumSubgraphs(node, &count));
  std::vector<const OrtGraph*> graphs(count);
  attributes->assign(count, nullptr);
  if (count != 0) {
    CUDAEP_RETURN_IF_ORT_ERROR(Host().ort->Node_GetSubgraphs(node, graphs.data(), count, attributes->data()));
  }
  return graphs;
}

class BodyReader {
 public:
  explicit BodyReader(const Settings& settings) : reader_(settings) {}

  Result<graph::LoopBody> Read(const OrtNode* loop) {
    NodeInfo info(loop, reader_.settings());
    CUDAEP_RETURN_IF_ERROR(info.Read());
    std::vector<const char*> attributes;
    CUDAEP_ASSIGN_OR_RETURN(const std::vector<const OrtGraph*> graphs, SubgraphsOf(loop, &attributes));
    if (graphs.size() != 1) return Internal("a Loop with ", graphs.size(), " graphs inside");
    CUDAEP_ASSIGN_OR_RETURN(const std::vector<int> given, reader_.ValuesOf(info.inputs()));
    CUDAEP_ASSIGN_OR_RETURN(const std::vector<const OrtValueInfo*> inputs, InputsOf(graphs[0]));
    CUDAEP_ASSIGN_OR_RETURN(reader_.graph.inputs, reader_.ValuesOf(inputs));
    CUDAEP_ASSIGN_OR_RETURN(reader_.graph.outputs, ReadNodes(graphs[0]));
    return graph::LoopBody{std::move(reader_.graph), given};
  }

 private:
  // Gives the graph's outputs.
  Result<std::vector<int>> ReadNodes(const OrtGraph* graph) {
    CUDAEP_ASSIGN_OR_RETURN(const std::vector<const OrtNode*> nodes, NodesOf(graph));
    if (reader_.graph.nodes.size() + nodes.size() > kMostNodes) return NotSupported("a long body");
    CUDAEP_RETURN_IF_ERROR(TellConstants(graph));
    for (const OrtNode* node : nodes) {
      NodeInfo info(node, reader_.settings());
      CUDAEP_RETURN_IF_ERROR(info.Read());
      CUDAEP_ASSIGN_OR_RETURN(graph::ir::Node made, reader_.Read(info));
      CUDAEP_RETURN_IF_ERROR(ReadBranches(node, &made));
      reader_.graph.nodes.push_back(std::move(made));
    }
    CUDAEP_ASSIGN_OR_RETURN(const std::vector<const OrtValueInfo*> outputs, OutputsOf(graph));
    return reader_.ValuesOf(outputs);
  }

  Status TellConstants(const OrtGraph* graph) {
    CUDAEP_ASSIGN_OR_RETURN(const std::vector<const OrtValueInfo*> constants, InitializersOf(graph));
    for (const OrtValueInfo* constant : constants) {
      const char* name = nullptr;
      CUDAEP_RETURN_IF_ORT_ERROR(Host().ort->GetValueInfoName(constant, &name));
      reader_.inner_constants.insert(name);
    }
    return Status::Ok();
  }

  // What a branch makes, and has as constants, is known in no other; what it reads from around the Loop is the same
  // value everywhere.
  Status ReadBranches(const OrtNode* node, graph::ir::Node* made) {
    std::vector<const char*> attributes;
    CUDAEP_ASSIGN_OR_RETURN(const std::vector<const OrtGraph*> graphs, SubgraphsOf(node, &attributes));
    if (graphs.empty()) return Status::Ok();
    if (!made->Is("If") || made->outputs.size() != 1 || graphs.size() != 2) return NotSupported("graphs inside");
    made->inputs.resize(3, -1);
    for (size_t i = 0; i < graphs.size(); ++i) {
      const std::set<std::string> constants = reader_.inner_constants;
      const size_t first_node = reader_.graph.nodes.size();
      CUDAEP_ASSIGN_OR_RETURN(const std::vector<int> outputs, ReadNodes(graphs[i]));
      std::set<int> own;
      for (size_t n = first_node; n < reader_.graph.nodes.size(); ++n) {
        own.insert(reader_.graph.nodes[n].outputs.begin(), reader_.graph.nodes[n].outputs.end());
      }
      std::erase_if(reader_.names, [&](const auto& entry) {
        const auto& [name, value] = entry;
        const bool is_constant = reader_.inner_constants.contains(name) && !constants.contains(name);
        return own.contains(value) || is_constant;
      });
      reader_.inner_constants = constants;
      const bool is_then = std::string_view(attributes[i]) == "then_branch";
      made->inputs[is_then ? 1 : 2] = outputs.front();
    }
    return Status::Ok();
  }

  IrReader reader_;
};

}  // namespace

Result<graph::LoopBody> ReadLoopBody(const OrtNode* loop, const Settings& settings) {
  return BodyReader(settings).Read(loop);
}

}  // namespace cudaep::abi
