#include "abi/ir_reader.h"

#include <algorithm>

#include "abi/host_tensor.h"
#include "core/strings.h"
#include "graph/ir/elements.h"

namespace cudaep::abi {
namespace {

Result<const OrtValue*> ConstantOf(const OrtValueInfo* info) {
  bool constant = false;
  CUDAEP_RETURN_IF_ORT_ERROR(Host().ort->ValueInfo_IsConstantInitializer(info, &constant));
  const OrtValue* tensor = nullptr;
  if (constant) CUDAEP_RETURN_IF_ORT_ERROR(Host().ort->ValueInfo_GetInitializerValue(info, &tensor));
  return tensor;
}

}  // namespace

Result<int> IrReader::ValueOf(const OrtValueInfo* info) {
  if (info == nullptr) return -1;
  const char* name = nullptr;
  CUDAEP_RETURN_IF_ORT_ERROR(Host().ort->GetValueInfoName(info, &name));
  if (*name == '\0') return -1;
  const auto [entry, fresh] = names.try_emplace(name, static_cast<int>(graph.values.size()));
  if (!fresh) return entry->second;
  const OrtTypeInfo* type = nullptr;
  CUDAEP_RETURN_IF_ORT_ERROR(Host().ort->GetValueInfoTypeInfo(info, &type));
  graph::ir::Value value{.name = name};
  ValueType stated = ReadValueType(type);
  value.kind = stated.kind;
  value.type = stated.element;
  if (stated.dims) {
    const std::vector<std::string> dim_names = ReadDimNames(type);
    value.dims.emplace();
    for (int d = 0; d < stated.dims->rank(); ++d) {
      value.dims->push_back({(*stated.dims)[d], graph::ir::SymbolOf(dim_names[static_cast<size_t>(d)])});
    }
  }
  CUDAEP_ASSIGN_OR_RETURN(const OrtValue* const constant, ConstantOf(info));
  if (constant != nullptr) CUDAEP_RETURN_IF_ERROR(ViewTensor(constant, &value.constant));
  value.is_initializer = value.is_constant() && !inner_constants.contains(name);
  return graph.AddValue(std::move(value));
}

Result<std::vector<int>> IrReader::ValuesOf(const std::vector<const OrtValueInfo*>& infos) {
  std::vector<int> values;
  for (const OrtValueInfo* info : infos) {
    CUDAEP_ASSIGN_OR_RETURN(const int value, ValueOf(info));
    values.push_back(value);
  }
  return values;
}

Result<graph::ir::Node> IrReader::Read(const NodeInfo& info) {
  graph::ir::Node node{.name = std::string(info.name()),
                       .domain = std::string(info.domain()),
                       .op_type = std::string(info.op_type()),
                       .since_version = info.since_version()};
  CUDAEP_ASSIGN_OR_RETURN(node.inputs, ValuesOf(info.inputs()));
  CUDAEP_ASSIGN_OR_RETURN(node.outputs, ValuesOf(info.outputs()));
  CUDAEP_ASSIGN_OR_RETURN(node.attributes, info.ReadAttributes());
  node.sources.push_back(LabelOf(node));
  return node;
}

std::string IrReader::LabelOf(const graph::ir::Node& node) const {
  if (!node.name.empty()) return StrCat(node.op_type, " node '", node.name, "'");
  const auto output = std::find_if(node.outputs.begin(), node.outputs.end(), [](int value) { return value >= 0; });
  if (output == node.outputs.end()) return StrCat(node.op_type, " node");
  return StrCat(node.op_type, " node with output '", graph.value(*output).name, "'");
}

}  // namespace cudaep::abi
