#include "abi/graph_view.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "abi/host_graph.h"
#include "abi/host_tensor.h"
#include "abi/node_info.h"
#include "abi/type_info.h"
#include "core/strings.h"
#include "graph/shape/host_operator.h"
#include "ops/image_layout.h"
#include "ops/registry.h"

namespace cudaep::abi {
namespace {

// Constants up to this size may follow shape computations to the CPU.
constexpr int64_t kSmallConstantElems = 64;

// kUndefined for anything that is not a tensor.
DataType TypeOf(const OrtValueInfo* value) {
  const OrtTypeInfo* type = nullptr;
  if (!FromOrt(Host().ort->GetValueInfoTypeInfo(value, &type)).ok()) return DataType::kUndefined;
  return ReadValueType(type).element;
}

// Whether a control-flow node has a value that its row does not carry. The host looks at the first of the variadic ones
// alone, and puts what the graphs inside read from around them in device memory, whatever it is.
Status CheckCarriedTypes(const NodeInfo& info, const std::vector<const OrtValueInfo*>& read_inside,
                         const ops::KernelRow& row) {
  DataTypeSet types;
  for (const ops::TypeConstraint& constraint : row.types) types = types | constraint.types;
  const auto check = [&](const std::vector<const OrtValueInfo*>& values, std::string_view what) -> Status {
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i] == nullptr) continue;
      const DataType type = TypeOf(values[i]);
      if (types.Contains(type)) continue;
      return NotSupported(what, ' ', i, " is ",
                          type == DataType::kUndefined ? "no tensor" : StrCat("a tensor of ", DataTypeName(type)));
    }
    return Status::Ok();
  };
  CUDAEP_RETURN_IF_ERROR(check(info.inputs(), "input"));
  CUDAEP_RETURN_IF_ERROR(check(read_inside, "implicit input"));
  return check(info.outputs(), "output");
}

std::string Types(int count, const NodeInfo& info, DataType (NodeInfo::*type_of)(int) const) {
  std::string types;
  for (int i = 0; i < count; ++i) types += StrCat(i == 0 ? "" : ", ", DataTypeName((info.*type_of)(i)));
  return types;
}

class GraphReader {
 public:
  GraphReader(OrtEpGraphSupportInfo* support, const Settings& settings, const std::string& ep_name,
              const graph::PlacementReport& earlier)
      : support_(support), settings_(settings), ep_name_(ep_name), earlier_(earlier) {}

  Result<GraphView> Read(const OrtGraph* graph) {
    CUDAEP_ASSIGN_OR_RETURN(const std::vector<const OrtNode*> nodes, NodesOf(graph));
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
    CUDAEP_RETURN_IF_ERROR(ReadOutputs(graph));
    if (parent == nullptr) return Status::Ok();
    NodeInfo info(parent, settings_);
    CUDAEP_RETURN_IF_ERROR(info.Read());
    CUDAEP_ASSIGN_OR_RETURN(const graph::NodeReport report, Describe(info));
    view_.report.parent = graph::Label(report);
    return report.op_type == "Loop" && report.domain.empty() ? ReadLoopInputs(graph) : Status::Ok();
  }

  Status ReadOutputs(const OrtGraph* graph) {
    CUDAEP_ASSIGN_OR_RETURN(const std::vector<const OrtValueInfo*> outputs, OutputsOf(graph));
    for (const OrtValueInfo* output : outputs) {
      const char* name = "";
      if (output != nullptr) CUDAEP_RETURN_IF_ORT_ERROR(Host().ort->GetValueInfoName(output, &name));
      view_.report.outputs.emplace_back(name);
    }
    return Status::Ok();
  }

  // The host hands a Loop's body the iteration and the condition in host memory.
  Status ReadLoopInputs(const OrtGraph* body) {
    CUDAEP_ASSIGN_OR_RETURN(std::vector<const OrtValueInfo*> inputs, InputsOf(body));
    inputs.resize(std::min<size_t>(inputs.size(), 2));
    for (const OrtValueInfo* input : inputs) {
      CUDAEP_ASSIGN_OR_RETURN(const int value, ValueOf(input));
      if (value >= 0) view_.placement.values[static_cast<size_t>(value)].host_output = true;
    }
    return Status::Ok();
  }

  // No image, or of a type that the host's channels-last schemas lack: the host would turn it into what no schema has.
  static bool StaysChannelsFirst(const NodeInfo& info) {
    const std::optional<Shape> dims = info.input_count() > 0 ? info.input_dims(0) : std::nullopt;
    // Of a ConvTranspose with an output_shape the host infers too few dimensions.
    bool stays = (dims && dims->rank() < 3) || !info.IntsOr("output_shape", {}).empty();
    for (int i = 0; i < info.input_count(); ++i) {
      stays = stays || ops::kChannelsFirstOnly.Contains(info.input_type(i));
    }
    return stays;
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
    value.constant = constant;
    value.name = name;
    const OrtValue* tensor = nullptr;
    ops::TensorView tensor_view;
    if (constant && FromOrt(ort.ValueInfo_GetInitializerValue(info, &tensor)).ok() && tensor != nullptr &&
        ViewTensor(tensor, &tensor_view).ok()) {
      value.small_constant = tensor_view.elems() <= kSmallConstantElems;
    }
    view_.placement.values.push_back(value);
    return entry->second;
  }

  // Hosts keep a constant that one node reads in both memories on the device, and hand it to nodes on the CPU from
  // there.
  static Status CheckConstantsInOneMemory(const NodeInfo& info, const ops::KernelRow& row) {
    std::map<std::string_view, bool> on_host;
    for (int i = 0; i < info.input_count(); ++i) {
      if (!info.is_constant(i)) continue;
      const char* name = nullptr;
      CUDAEP_RETURN_IF_ORT_ERROR(Host().ort->GetValueInfoName(info.inputs()[static_cast<size_t>(i)], &name));
      if (on_host.emplace(name, row.IsHostInput(i)).first->second == row.IsHostInput(i)) continue;
      return NotSupported("constant '", name, "' is read on the device and in host memory");
    }
    return Status::Ok();
  }

  // Why the node cannot be ours, or OK.
  Status Claimable(const OrtNode* node, const NodeInfo& info, const std::vector<const OrtValueInfo*>& read_inside,
                   const ops::KernelRow* row) {
    if (row == nullptr) return ops::MissingRow(info);
    if (row->kind != ops::RowKind::kOperator) CUDAEP_RETURN_IF_ERROR(CheckCarriedTypes(info, read_inside, *row));
    const OrtKernelDef* definition = nullptr;
    CUDAEP_RETURN_IF_ORT_ERROR(Host().ep->EpGraphSupportInfo_LookUpKernel(support_, node, &definition));
    if (definition == nullptr) {
      return NotSupported("no kernel for element types (", Types(info.input_count(), info, &NodeInfo::input_type),
                          ") -> (", Types(info.output_count(), info, &NodeInfo::output_type), ")");
    }
    if (row->kind != ops::RowKind::kOperator) return Status::Ok();
    CUDAEP_RETURN_IF_ERROR(CheckConstantsInOneMemory(info, *row));
    return row->make(info, *row).status();
  }

  RegionFacts RegionFactsOf(const NodeInfo& info, const ops::KernelRow* row) const {
    if (!settings_.compiled_regions) return {};
    RegionFacts facts{.on_host = !graph::GrowsWithValues(info) && graph::MakeHostOperator(info).ok(),
                      .reads_dims_only = graph::ReadsDimsOnly(info)};
    if (row == nullptr || row->kind != ops::RowKind::kOperator || row->open_shapes || !row->host_outputs.empty() ||
        row->domain == std::string_view(ops::kOwnDomain)) {  // collectives: a region is launched as a CUDA graph
      return facts;
    }
    const auto is_other = [](ops::ValueKind kind) {
      return kind != ops::ValueKind::kTensor && kind != ops::ValueKind::kAbsent;
    };
    facts.on_device = true;
    for (int i = 0; i < info.input_count(); ++i) facts.on_device = facts.on_device && !is_other(info.input_kind(i));
    for (int i = 0; i < info.output_count(); ++i) facts.on_device = facts.on_device && !is_other(info.output_kind(i));
    return facts;
  }

  Status ReadNode(const OrtNode* node) {
    NodeInfo info(node, settings_);
    CUDAEP_RETURN_IF_ERROR(info.Read());
    const ops::KernelRow* row = ops::FindRow(info.domain(), info.op_type(), info.since_version());
    CUDAEP_ASSIGN_OR_RETURN(graph::NodeReport report, Describe(info));
    const char* owner = nullptr;
    CUDAEP_RETURN_IF_ORT_ERROR(Host().ort->Node_GetEpName(node, &owner));
    CUDAEP_ASSIGN_OR_RETURN(const std::vector<const OrtValueInfo*> read_inside, ImplicitInputs(node));
    size_t subgraphs = 0;
    CUDAEP_RETURN_IF_ORT_ERROR(Host().ort->Node_GetNumSubgraphs(node, &subgraphs));
    const graph::NodeCount inside = subgraphs == 0 ? graph::NodeCount{} : earlier_.Inside(graph::Label(report));
    graph::PlacementNode placed;
    placed.runs_graphs = inside.ours != 0;
    placed.collective = info.domain() == ops::kOwnDomain;
    if (owner != nullptr && *owner != '\0' && owner != ep_name_) {
      report.home = graph::NodeHome::kOtherTaken;
      report.reason = StrCat("taken by ", owner);
    } else if (owner != nullptr && owner == ep_name_ && row == nullptr) {
      placed.claimed = report.is_region = true;
    } else if (const Status claimable = Claimable(node, info, read_inside, row); !claimable.ok()) {
      placed.falls_to_cpu = true;
      report.home = graph::NodeHome::kUnsupported;
      report.reason = claimable.message();
    } else if (inside.all != 0 && inside.ours == 0) {
      // What runs on the CPU inside is best fed from there.
      placed.falls_to_cpu = true;
      report.home = inside.elsewhere == 0 ? graph::NodeHome::kShapeNode : graph::NodeHome::kUnsupported;
      if (inside.elsewhere != 0) report.reason = "no node inside it has a kernel";
    } else {
      placed.claimed = true;
      if (settings_.prefer_nhwc && StaysChannelsFirst(info)) view_.channels_first_only.insert(report.op_type);
    }
    const auto listed = [&](const std::vector<int>& list, size_t index) {
      return placed.claimed && std::find(list.begin(), list.end(), static_cast<int>(index)) != list.end();
    };
    for (size_t i = 0; i < info.inputs().size(); ++i) {
      CUDAEP_ASSIGN_OR_RETURN(const int value, ValueOf(info.inputs()[i]));
      placed.inputs.push_back({value, placed.claimed && row != nullptr && row->IsHostInput(static_cast<int>(i))});
    }
    RegionFacts facts = RegionFactsOf(info, placed.claimed ? row : nullptr);
    facts.is_region = placed.claimed && row == nullptr;
    for (const OrtValueInfo* input : read_inside) {
      CUDAEP_ASSIGN_OR_RETURN(const int value, ValueOf(input));
      if (value >= 0) facts.read_inside.push_back(value);
      if (!placed.runs_graphs) placed.inputs.push_back({value, false});
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
    view_.regions.push_back(std::move(facts));
    view_.placement.nodes.push_back(std::move(placed));
    view_.nodes.push_back(node);
    view_.assigned.push_back(owner != nullptr && owner == ep_name_);
    view_.report.nodes.push_back(std::move(report));
    return Status::Ok();
  }

  // What the graphs inside a control-flow node read from around them.
  static Result<std::vector<const OrtValueInfo*>> ImplicitInputs(const OrtNode* node) {
    size_t count = 0;
    CUDAEP_RETURN_IF_ORT_ERROR(Host().ort->Node_GetNumImplicitInputs(node, &count));
    std::vector<const OrtValueInfo*> inputs(count);
    if (count != 0) CUDAEP_RETURN_IF_ORT_ERROR(Host().ort->Node_GetImplicitInputs(node, inputs.data(), count));
    return inputs;
  }

  OrtEpGraphSupportInfo* support_;
  const Settings& settings_;
  const std::string& ep_name_;
  const graph::PlacementReport& earlier_;
  GraphView view_;
  std::unordered_map<std::string, int> values_;
};

}  // namespace

Result<GraphView> ReadGraph(const OrtGraph* graph, OrtEpGraphSupportInfo* support, const Settings& settings,
                            const std::string& ep_name, const graph::PlacementReport& earlier) {
  return GraphReader(support, settings, ep_name, earlier).Read(graph);
}

}  // namespace cudaep::abi
