#include "abi/node_demand.h"

#include <algorithm>

#include "abi/host_tensor.h"
#include "core/strings.h"
#include "memory/allocator.h"

namespace cudaep::abi {
namespace {

// The host puts this and a number behind the name of a node that it turned channels-last.
constexpr std::string_view kTurnedMark = "_token_";

Result<std::string> NameOf(const OrtValueInfo* info) {
  const char* name = "";
  if (info != nullptr) CUDAEP_RETURN_IF_ORT_ERROR(Host().ort->GetValueInfoName(info, &name));
  return std::string(name);
}

bool IsStatic(Dims dims) {
  return std::all_of(dims.begin(), dims.end(), [](int64_t dim) { return dim >= 0; });
}

// As the arena rounds.
uint64_t BytesOf(DataType type, const Shape& shape) {
  if (!CheckedElementCount(shape).ok()) return UINT64_MAX / 4;
  return AlignUp(StorageBytes(type, shape.elems()), memory::kAlignmentBytes);
}

// The constant behind a value, also one of an outer graph; not present where there is none.
Result<ops::TensorView> ConstantOf(const OrtValueInfo* info) {
  const OrtApi& ort = *Host().ort;
  bool constant = false;
  const OrtValue* value = nullptr;
  ops::TensorView view;
  if (info == nullptr || !FromOrt(ort.ValueInfo_IsConstantInitializer(info, &constant)).ok() || !constant) return view;
  CUDAEP_RETURN_IF_ORT_ERROR(ort.ValueInfo_GetInitializerValue(info, &value));
  if (value != nullptr) CUDAEP_RETURN_IF_ERROR(ViewTensor(value, &view));
  return view;
}

void AddUnknown(graph::NodeDemand* demand, const std::string& text) {
  if (demand->unknown.empty()) demand->unknown = text;
}

}  // namespace

NodeUseReader::NodeUseReader(const SessionState& state, MayTurn may_turn, const graph::NodeStats& stats,
                             StreamContext& stream)
    : state_(state), settings_(state.settings()), may_turn_(std::move(may_turn)), stats_(stats), stream_(stream) {
  if (settings_.conv_search == ConvSearch::kExhaustive) settings_.conv_search = ConvSearch::kHeuristic;
  settings_.measure_products = false;
}

Result<NodeUse> NodeUseReader::Read(const OrtNode* node, bool assigned) {
  NodeInfo info(node, settings_, &state_);
  CUDAEP_RETURN_IF_ERROR(info.Read());
  const ops::KernelRow* const row = ops::FindRow(info.domain(), info.op_type(), info.since_version());
  if (row == nullptr) return ops::MissingRow(info);
  NodeUse use;
  use.demand.recorded = Recorded(info);
  ops::OperatorPtr op;
  if (row->kind == ops::RowKind::kOperator) {
    CUDAEP_ASSIGN_OR_RETURN(op, ops::MakeOperator(info, *row));
  }
  CUDAEP_RETURN_IF_ERROR(ReadInputs(info, *row, op.get(), &use));
  if (op != nullptr) CUDAEP_RETURN_IF_ERROR(Plan(info, *op, &use));
  CUDAEP_RETURN_IF_ERROR(ReadOutputs(info, *row, &use));
  // A node that the host turns channels-last stands between transposes, and the host does not take it back then.
  if (!assigned && settings_.prefer_nhwc && info.domain() == ops::kOnnxDomain && may_turn_(info.op_type())) {
    const uint64_t turned_input = use.device_inputs.empty() ? 0 : use.device_inputs.front().bytes;
    uint64_t transposes = use.demand.outputs + turned_input;
    for (const auto& weight : use.demand.weights) transposes += weight.bytes;
    use.demand.outputs += transposes;
    // That figure is the node's alone, with the copy of an input that then a transpose copies.
    if (use.demand.recorded) *use.demand.recorded += transposes + turned_input;
  }
  return use;
}

std::optional<uint64_t> NodeUseReader::Recorded(const NodeInfo& info) const {
  std::string_view name = info.name();
  const std::optional<uint64_t> found = stats_.Find(name);
  if (found) return found;
  if (info.domain() == ops::kNhwcDomain) name = name.substr(0, name.rfind(kTurnedMark));
  return stats_.Find(name.empty() ? info.op_type() : name);
}

std::optional<Shape> NodeUseReader::ShapeOf(const std::string& name, const std::optional<Shape>& stated) const {
  if (stated && IsStatic(*stated)) return stated;
  if (const auto found = inferred_.find(name); found != inferred_.end()) return found->second;
  if (!stated || settings_.budget_dynamic_dim == 0) return std::nullopt;
  Shape filled = *stated;
  for (int i = 0; i < filled.rank(); ++i) filled[i] = filled[i] < 0 ? settings_.budget_dynamic_dim : filled[i];
  return filled;
}

Status NodeUseReader::ReadInputs(const NodeInfo& info, const ops::KernelRow& row, const ops::Operator* op,
                                 NodeUse* use) {
  const auto count = static_cast<size_t>(info.input_count());
  is_planable_ = true;
  views_.assign(count, {});
  dims_.assign(count, {});
  for (size_t i = 0; i < count; ++i) {
    const int index = static_cast<int>(i);
    if (!info.has_input(index)) continue;
    CUDAEP_ASSIGN_OR_RETURN(const std::string name, NameOf(info.inputs()[i]));
    CUDAEP_ASSIGN_OR_RETURN(const ops::TensorView constant, ConstantOf(info.inputs()[i]));
    const bool on_host = row.IsHostInput(index);
    if (info.input_kind(index) != ops::ValueKind::kTensor) {
      is_planable_ = false;
      continue;
    }
    std::optional<Shape> shape =
        constant.present() ? std::optional(Shape(constant.dims())) : ShapeOf(name, info.input_dims(index));
    if (!shape || (on_host && !constant.present())) is_planable_ = false;
    if (!shape) continue;
    dims_[i] = *shape;
    views_[i] = {.data = on_host ? constant.data : nullptr,
                 .dim = dims_[i].data(),
                 .rank = dims_[i].rank(),
                 .type = info.input_type(index)};
    uint64_t bytes = BytesOf(views_[i].type, dims_[i]);
    if (on_host) {
      if (constant.present()) use->demand.in_host_memory += bytes;
      continue;
    }
    if (!constant.present()) {
      use->device_inputs.push_back({name, bytes});
      continue;
    }
    const bool own = info.constant(index).has_value();
    if (own && op != nullptr) {
      const Result<size_t> packed = op->PackedBytes(index, views_[i]);
      if (packed.ok() && packed.value() != 0) {
        views_[i].packed = true;
        use->demand.packing = std::max<uint64_t>(use->demand.packing, packed.value());
        bytes = std::max<uint64_t>(bytes, packed.value());
      }
    }
    // Graphs that are no relatives may use one name for different tensors.
    use->demand.weights.push_back({StrCat(name, '@', constant.data), bytes});
  }
  return Status::Ok();
}

Status NodeUseReader::Plan(const NodeInfo& info, const ops::Operator& op, NodeUse* use) {
  if (!is_planable_) {
    AddUnknown(&use->demand, "scratch memory, which depends on dimensions or values that the model leaves open");
    return Status::Ok();
  }
  std::vector<Shape> outputs(static_cast<size_t>(info.output_count()));
  Status status = op.InferShapes(views_, outputs);
  if (status.ok()) {
    const Result<ops::PlanPtr> plan = op.MakePlan({views_, outputs, stream_, stream_.device_info()});
    if (plan.ok()) {
      use->demand.workspace = plan.value()->workspace_bytes;
    } else {
      status = plan.status();
    }
  }
  if (!status.ok()) {
    AddUnknown(&use->demand, StrCat("scratch memory: ", status.message()));
    return Status::Ok();
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    CUDAEP_ASSIGN_OR_RETURN(std::string name, NameOf(info.outputs()[i]));
    if (!name.empty() && IsStatic(outputs[i])) inferred_.insert_or_assign(std::move(name), outputs[i]);
  }
  return Status::Ok();
}

Status NodeUseReader::ReadOutputs(const NodeInfo& info, const ops::KernelRow& row, NodeUse* use) {
  for (size_t i = 0; i < info.outputs().size(); ++i) {
    const int index = static_cast<int>(i);
    if (!info.has_output(index)) continue;
    const auto& hosts = row.host_outputs;
    const bool on_host = std::find(hosts.begin(), hosts.end(), index) != hosts.end();
    CUDAEP_ASSIGN_OR_RETURN(const std::string name, NameOf(info.outputs()[i]));
    const bool is_tensor = info.output_kind(index) == ops::ValueKind::kTensor;
    const std::optional<Shape> shape = is_tensor ? ShapeOf(name, info.output_dims(index)) : std::nullopt;
    if (shape) {
      uint64_t& bytes = on_host ? use->demand.in_host_memory : use->demand.outputs;
      bytes += BytesOf(info.output_type(index), *shape);
    }
    if (on_host) continue;
    use->device_outputs.push_back(name);
    if (!shape) {
      AddUnknown(&use->demand,
                 StrCat("output ", i, is_tensor ? ", whose shape the model leaves open" : ", which is no tensor"));
    }
  }
  return Status::Ok();
}

}  // namespace cudaep::abi
