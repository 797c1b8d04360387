#include "abi/graph_view.h"

#include <algorithm>
#include <unordered_map>

#include "abi/host_tensor.h"
#include "abi/node_info.h"
#include "ops/registry.h"

namespace cudaep::abi {
namespace {

// Constants up to this size may follow shape computations to the CPU.
constexpr int64_t kSmallConstantElems = 64;

std::string Types(int count, const NodeInfo& info, DataType (NodeInfo::*type_of)(int) const) {
  std::string types;
  for (int i = 0; i < count; ++i) types += StrCat(i == 0 ? "" : ", ", DataTypeName((info.*type_of)(i)));
  return types;
}

class GraphReader {
 public:
  GraphReader(OrtEpGraphSupportInfo* support, const Settings& settings, const std::string& ep_name)
      : support_(support), settings_(settings), ep_name_(ep_name) {}

  Result<GraphView> Read(const OrtGraph* graph) {
    size_t count = 0;
    CUDAEP_RETURN_IF_ORT_ERROR(Host().ort->Graph_GetNumNodes(graph, &count));
    std::vector<const OrtNode*> nodes(count);
    CUDAEP_RETURN_IF_ORT_ERROR(Host().ort->Graph_GetNodes(graph, nodes.data(), count));
    CUDAEP_RETURN_IF_ERROR(ReadIdentity(graph));
    for (const OrtNode* node : nodes) {
      CUDAEP_RETURN_IF_ERROR(ReadNode(node));
    }
    return std::move(view_);
  }

 private:
  Status ReadIdentity(const OrtGraph* graph) {
    const OrtApi& ort = *Host().ort;
    const char* name = nullptr;
    const OrtNode* parent = nullptr;
    CUDAEP_RETURN_IF_ORT_ERROR(ort.Graph_GetName(graph, &name));
    CUDAEP_RETURN_IF_ORT_ERROR(ort.Graph_GetParentNode(graph, &parent));
    view_.report.name = name;
    if (parent == nullptr) return Status::Ok();
    NodeInfo info(parent, settings_);
    CUDAEP_RETURN_IF_ERROR(info.Read());
    CUDAEP_ASSIGN_OR_RETURN(const graph::NodeReport report, Describe(info));
    view_.report.parent = graph::Label(report);
    return Status::Ok();
  }

  static Result<graph::NodeReport> Describe(const NodeInfo& info) {
    const char* output = "";
    for (const OrtValueInfo* value : info.outputs()) {
      if (value == nullptr) continue;
      CUDAEP_RETURN_IF_ORT_ERROR(Host().ort->GetValueInfoName(value, &output));
      if (*output != '\0') break;
    }
    return graph::NodeReport{.name = std::string(info.name()),
                             .first_output = output,
                             .op_type = std::string(info.op_type()),
                             .domain = std::string(info.domain()),
                             .since_version = info.since_version()};
  }

  Result<int> ValueOf(const OrtValueInfo* info) {
    if (info == nullptr) return -1;
    const OrtApi& ort = *Host().ort;
    const char* name = nullptr;
    CUDAEP_RETURN_IF_ORT_ERROR(ort.GetValueInfoName(info, &name));
    if (*name == '\0') return -1;
    const auto [entry, fresh] = values_.try_emplace(name, static_cast<int>(view_.placement.values.size()));
    if (!fresh) return entry->second;
    graph::PlacementValue value;
    CUDAEP_RETURN_IF_ORT_ERROR(ort.ValueInfo_IsGraphOutput(info, &value.graph_output));
    bool constant = false;
    CUDAEP_RETURN_IF_ORT_ERROR(ort.ValueInfo_IsConstantInitializer(info, &constant));
    const OrtValue* tensor = nullptr;
    ops::TensorView tensor_view;
    if (constant && FromOrt(ort.ValueInfo_GetInitializerValue(info, &tensor)).ok() && tensor != nullptr &&
        ViewTensor(tensor, &tensor_view).ok()) {
      value.small_constant = tensor_view.elems() <= kSmallConstantElems;
    }
    view_.placement.values.push_back(value);
    return entry->second;
  }

  // Why the node cannot be ours, or OK.
  Status Claimable(const OrtNode* node, const NodeInfo& info, const ops::KernelRow* row) {
    if (row == nullptr) return ops::MissingRow(info);
    const OrtKernelDef* definition = nullptr;
    CUDAEP_RETURN_IF_ORT_ERROR(Host().ep->EpGraphSupportInfo_LookUpKernel(support_, node, &definition));
    if (definition == nullptr) {
      return NotSupported("no kernel for element types (", Types(info.input_count(), info, &NodeInfo::input_type),
                          ") -> (", Types(info.output_count(), info, &NodeInfo::output_type), ")");
    }
    if (row->kind != ops::RowKind::kOperator) return Status::Ok();
    return row->make(info, *row).status();
  }

  Status ReadNode(const OrtNode* node) {
    NodeInfo info(node, settings_);
    CUDAEP_RETURN_IF_ERROR(info.Read());
    const ops::KernelRow* row = ops::FindRow(info.domain(), info.op_type(), info.since_version());
    CUDAEP_ASSIGN_OR_RETURN(graph::NodeReport report, Describe(info));
    const char* owner = nullptr;
    CUDAEP_RETURN_IF_ORT_ERROR(Host().ort->Node_GetEpName(node, &owner));
    graph::PlacementNode placed;
    if (owner != nullptr && *owner != '\0' && owner != ep_name_) {
      report.home = graph::NodeHome::kOtherTaken;
      report.reason = StrCat("taken by ", owner);
    } else if (const Status claimable = Claimable(node, info, row); claimable.ok()) {
      placed.claimed = true;
    } else {
      size_t subgraphs = 0;
      CUDAEP_RETURN_IF_ORT_ERROR(Host().ort->Node_GetNumSubgraphs(node, &subgraphs));
      placed.falls_to_cpu = subgraphs == 0;
      report.home = graph::NodeHome::kUnsupported;
      report.reason = claimable.message();
    }
    const auto listed = [&](const std::vector<int>& list, size_t index) {
      return placed.claimed && std::find(list.begin(), list.end(), static_cast<int>(index)) != list.end();
    };
    for (size_t i = 0; i < info.inputs().size(); ++i) {
      CUDAEP_ASSIGN_OR_RETURN(const int value, ValueOf(info.inputs()[i]));
      placed.inputs.push_back({value, placed.claimed && row->IsHostInput(static_cast<int>(i))});
    }
    const int index = static_cast<int>(view_.nodes.size());
    for (size_t i = 0; i < info.outputs().size(); ++i) {
      CUDAEP_ASSIGN_OR_RETURN(const int value, ValueOf(info.outputs()[i]));
      placed.outputs.push_back(value);
      if (value < 0) continue;
      auto& facts_of_value = view_.placement.values[static_cast<size_t>(value)];
      facts_of_value.producer = index;
      facts_of_value.host_output = row != nullptr && listed(row->host_outputs, i);
    }
    view_.placement.nodes.push_back(std::move(placed));
    view_.nodes.push_back(node);
    view_.report.nodes.push_back(std::move(report));
    return Status::Ok();
  }

  OrtEpGraphSupportInfo* support_;
  const Settings& settings_;
  const std::string& ep_name_;
  GraphView view_;
  std::unordered_map<std::string, int> values_;
};

}  // namespace

Result<GraphView> ReadGraph(const OrtGraph* graph, OrtEpGraphSupportInfo* support, const Settings& settings,
                            const std::string& ep_name) {
  return GraphReader(support, settings, ep_name).Read(graph);
}

}  // namespace cudaep::abi
