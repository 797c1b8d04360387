#include "abi/region_import.h"

#include <algorithm>
#include <map>

#include "abi/host_tensor.h"
#include "abi/node_info.h"
#include "core/strings.h"
#include "graph/ir/elements.h"

namespace cudaep::abi {
namespace {

size_t Index(int index) { return static_cast<size_t>(index); }

Result<std::vector<const OrtNode*>> NodesOf(const OrtGraph* graph) {
  size_t count = 0;
  CUDAEP_RETURN_IF_ORT_ERROR(Host().ort->Graph_GetNumNodes(graph, &count));
  std::vector<const OrtNode*> nodes(count);
  CUDAEP_RETURN_IF_ORT_ERROR(Host().ort->Graph_GetNodes(graph, nodes.data(), count));
  return nodes;
}

Result<const OrtValue*> ConstantOf(const OrtValueInfo* info) {
  bool constant = false;
  CUDAEP_RETURN_IF_ORT_ERROR(Host().ort->ValueInfo_IsConstantInitializer(info, &constant));
  const OrtValue* tensor = nullptr;
  if (constant) CUDAEP_RETURN_IF_ORT_ERROR(Host().ort->ValueInfo_GetInitializerValue(info, &tensor));
  return tensor;
}

class Importer {
 public:
  Importer(const RegionClaims& claims, const Settings& settings) : claims_(claims), settings_(settings) {}

  Result<graph::ir::Graph> Import(const OrtGraph* graph, const OrtNode* node) {
    NodeInfo fused(node, settings_);
    CUDAEP_RETURN_IF_ERROR(fused.Read());
    for (int i = 0; i < fused.input_count(); ++i) {
      CUDAEP_ASSIGN_OR_RETURN(const int value, ValueOf(fused.inputs()[Index(i)]));
      if (value < 0) return Internal("input ", i, " of the fused node has no name");
      made_.value(value).input = i;
      made_.inputs.push_back(value);
    }
    CUDAEP_ASSIGN_OR_RETURN(const std::vector<const OrtNode*> nodes, NodesOf(graph));
    for (const OrtNode* member : nodes) CUDAEP_RETURN_IF_ERROR(AddNode(member));
    for (int i = 0; i < fused.output_count(); ++i) {
      CUDAEP_ASSIGN_OR_RETURN(const int value, ValueOf(fused.outputs()[Index(i)]));
      if (value < 0) return Internal("output ", i, " of the fused node has no name");
      made_.value(value).output = i;
      made_.outputs.push_back(value);
    }
    return std::move(made_);
  }

 private:
  Result<int> ValueOf(const OrtValueInfo* info) {
    if (info == nullptr) return -1;
    const char* name = nullptr;
    CUDAEP_RETURN_IF_ORT_ERROR(Host().ort->GetValueInfoName(info, &name));
    if (*name == '\0') return -1;
    const auto [entry, fresh] = values_.try_emplace(name, static_cast<int>(made_.values.size()));
    if (!fresh) return entry->second;
    const OrtTypeInfo* type = nullptr;
    CUDAEP_RETURN_IF_ORT_ERROR(Host().ort->GetValueInfoTypeInfo(info, &type));
    graph::ir::Value value{.name = name};
    ValueType stated = ReadValueType(type);
    value.kind = stated.kind;
    value.type = stated.element;
    if (stated.dims) {
      const std::vector<std::string> names = ReadDimNames(type);
      value.dims.emplace();
      for (int d = 0; d < stated.dims->rank(); ++d) {
        value.dims->push_back({(*stated.dims)[d], graph::ir::SymbolOf(names[Index(d)])});
      }
    }
    CUDAEP_ASSIGN_OR_RETURN(const OrtValue* const constant, ConstantOf(info));
    if (constant != nullptr) CUDAEP_RETURN_IF_ERROR(ViewTensor(constant, &value.constant));
    value.is_initializer = value.is_constant();
    return made_.AddValue(std::move(value));
  }

  Status AddNode(const OrtNode* node) {
    NodeInfo info(node, settings_);
    CUDAEP_RETURN_IF_ERROR(info.Read());
    graph::ir::Node made{.name = std::string(info.name()),
                         .domain = std::string(info.domain()),
                         .op_type = std::string(info.op_type()),
                         .since_version = info.since_version()};
    for (const OrtValueInfo* input : info.inputs()) {
      CUDAEP_ASSIGN_OR_RETURN(const int value, ValueOf(input));
      made.inputs.push_back(value);
    }
    for (const OrtValueInfo* output : info.outputs()) {
      CUDAEP_ASSIGN_OR_RETURN(const int value, ValueOf(output));
      made.outputs.push_back(value);
      made.on_host = made.on_host || (value >= 0 && claims_.IsEvaluated(made_.value(value).name));
    }
    CUDAEP_ASSIGN_OR_RETURN(made.attributes, info.ReadAttributes());
    made.sources.push_back(LabelOf(made));
    made_.nodes.push_back(std::move(made));
    return Status::Ok();
  }

  std::string LabelOf(const graph::ir::Node& node) const {
    if (!node.name.empty()) return StrCat(node.op_type, " node '", node.name, "'");
    const auto output = std::find_if(node.outputs.begin(), node.outputs.end(), [](int value) { return value >= 0; });
    if (output == node.outputs.end()) return StrCat(node.op_type, " node");
    return StrCat(node.op_type, " node with output '", made_.value(*output).name, "'");
  }

  const RegionClaims& claims_;
  const Settings& settings_;
  graph::ir::Graph made_;
  std::map<std::string, int> values_;
};

}  // namespace

Result<graph::ir::Graph> ImportRegion(const OrtGraph* graph, const OrtNode* node, const RegionClaims& claims,
                                      const Settings& settings) {
  return Importer(claims, settings).Import(graph, node);
}

}  // namespace cudaep::abi
