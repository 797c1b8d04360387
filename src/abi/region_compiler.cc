#include "abi/region_compiler.h"

#include <algorithm>

#include "abi/host_tensor.h"
#include "memory/allocation_label.h"
#include "ops/packed_weight.h"
#include "runtime/own_stream.h"

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

}  // namespace

Result<graph::Program> RegionCompiler::Compile(const OrtGraph* graph, const OrtNode* node) {
  NodeInfo fused(node, state_.settings());
  CUDAEP_RETURN_IF_ERROR(fused.Read());
  for (int i = 0; i < fused.input_count(); ++i) {
    CUDAEP_ASSIGN_OR_RETURN(const int value, ValueOf(fused.inputs()[Index(i)], fused.input_type(i)));
    if (value < 0) return Internal("input ", i, " of the fused node has no name");
    program_.values[Index(value)].input = i;
    program_.inputs.push_back(value);
  }
  CUDAEP_ASSIGN_OR_RETURN(const std::vector<const OrtNode*> nodes, NodesOf(graph));
  for (const OrtNode* member : nodes) CUDAEP_RETURN_IF_ERROR(AddNode(member));
  for (int i = 0; i < fused.output_count(); ++i) {
    CUDAEP_ASSIGN_OR_RETURN(const int value, ValueOf(fused.outputs()[Index(i)], fused.output_type(i)));
    if (value < 0) return Internal("output ", i, " of the fused node has no name");
    program_.values[Index(value)].output = i;
    program_.outputs.push_back(value);
  }
  CUDAEP_RETURN_IF_ERROR(CopyConstants());
  return std::move(program_);
}

Result<int> RegionCompiler::ValueOf(const OrtValueInfo* info, DataType type) {
  if (info == nullptr) return -1;
  const char* name = nullptr;
  CUDAEP_RETURN_IF_ORT_ERROR(Host().ort->GetValueInfoName(info, &name));
  if (*name == '\0') return -1;
  const auto [entry, fresh] = values_.try_emplace(name, static_cast<int>(program_.values.size()));
  if (!fresh) return entry->second;
  program_.values.push_back({.name = name, .type = type});
  CUDAEP_RETURN_IF_ERROR(ReadConstant(info, entry->second));
  return entry->second;
}

Status RegionCompiler::ReadConstant(const OrtValueInfo* info, int value) {
  bool constant = false;
  CUDAEP_RETURN_IF_ORT_ERROR(Host().ort->ValueInfo_IsConstantInitializer(info, &constant));
  if (!constant) return Status::Ok();
  const OrtValue* tensor = nullptr;
  CUDAEP_RETURN_IF_ORT_ERROR(Host().ort->ValueInfo_GetInitializerValue(info, &tensor));
  ops::TensorView view;
  CUDAEP_RETURN_IF_ERROR(ViewTensor(tensor, &view));
  graph::ProgramValue& made = program_.values[Index(value)];
  if (!view.present()) return Internal("constant '", made.name, "' of a region has no value");
  made.is_constant = true;
  made.host_constant = {.type = view.type, .dims = Shape(view.dims()), .data = {}};
  constants_[value] = tensor;
  return Status::Ok();
}

std::string RegionCompiler::LabelOf(const NodeInfo& info, const graph::ProgramStep& step) const {
  if (!info.name().empty()) return StrCat(info.op_type(), " node '", info.name(), "'");
  const auto output = std::find_if(step.outputs.begin(), step.outputs.end(), [](int value) { return value >= 0; });
  if (output == step.outputs.end()) return StrCat(info.op_type(), " node");
  return StrCat(info.op_type(), " node with output '", program_.values[Index(*output)].name, "'");
}

Status RegionCompiler::AddNode(const OrtNode* node) {
  NodeInfo info(node, state_.settings());
  CUDAEP_RETURN_IF_ERROR(info.Read());
  graph::ProgramStep step;
  bool evaluated = false;
  for (int i = 0; i < info.input_count(); ++i) {
    CUDAEP_ASSIGN_OR_RETURN(const int value, ValueOf(info.inputs()[Index(i)], info.input_type(i)));
    step.inputs.push_back(value);
  }
  for (int i = 0; i < info.output_count(); ++i) {
    CUDAEP_ASSIGN_OR_RETURN(const int value, ValueOf(info.outputs()[Index(i)], info.output_type(i)));
    step.outputs.push_back(value);
    evaluated = evaluated || (value >= 0 && claims_.IsEvaluated(program_.values[Index(value)].name));
  }
  step.label = memory::InternLabel(LabelOf(info, step));
  if (evaluated) {
    CUDAEP_ASSIGN_OR_RETURN(step.host_op, graph::MakeHostOperator(info));
  } else {
    step.row = ops::FindRow(info.domain(), info.op_type(), info.since_version());
    if (step.row == nullptr) return ops::MissingRow(info);
    Result<ops::OperatorPtr> made = ops::MakeOperator(info, *step.row);
    if (!made.ok()) return std::move(made).status().WithContext(step.label);
    step.op = std::move(made).value();
    step.packed.resize(step.inputs.size());
  }
  program_.steps.push_back(std::move(step));
  return Status::Ok();
}

// The host's memory is read when this returns.
Status RegionCompiler::CopyConstants() {
  std::map<int, std::vector<Use>> uses;
  for (graph::ProgramStep& step : program_.steps) {
    for (size_t i = 0; i < step.inputs.size(); ++i) uses[step.inputs[i]].push_back({&step, i});
  }
  return OnOwnStream(state_.memory(), [&](StreamContext& stream) -> Status {
    for (const auto& [value, tensor] : constants_) {
      CUDAEP_RETURN_IF_ERROR(
          CopyConstant(value, uses[value], stream)
              .WithContext(StrCat("constant '", program_.values[Index(value)].name, "' of a region")));
    }
    return Status::Ok();
  });
}

// One that is only read in packed form goes from the device again.
Status RegionCompiler::CopyConstant(int index, const std::vector<Use>& uses, StreamContext& stream) {
  graph::ProgramValue& value = program_.values[Index(index)];
  ops::TensorView weight;
  CUDAEP_RETURN_IF_ERROR(ViewTensor(constants_[index], &weight));
  const auto* source = static_cast<const std::byte*>(weight.data);
  const size_t bytes = weight.bytes();
  const auto on_host = [](const Use& use) { return use.step->ReadsOnHost(use.input); };
  if (std::any_of(uses.begin(), uses.end(), on_host)) value.host_constant.data.assign(source, source + bytes);
  if (std::all_of(uses.begin(), uses.end(), on_host) || bytes == 0) return Status::Ok();

  const std::shared_ptr<memory::Allocator> weights = state_.memory()->weights();
  CUDAEP_ASSIGN_OR_RETURN(value.device_constant, weights->Reserve(bytes));
  const size_t copy = program_.memory.size();
  program_.memory.emplace_back(value.device_constant, [weights](void* block) { weights->Free(block); });
  CUDAEP_RETURN_IF_ERROR(device::MemcpyAsync(value.device_constant, source, bytes, stream.stream()));
  weight.data = value.device_constant;
  bool all_packed = true;
  for (const Use& use : uses) {
    if (on_host(use)) continue;
    CUDAEP_ASSIGN_OR_RETURN(const bool packed, Pack(use, weight, stream));
    all_packed = all_packed && packed;
  }
  if (!all_packed) return Status::Ok();
  CUDAEP_RETURN_IF_ERROR(device::StreamSynchronize(stream.stream()));
  program_.memory.erase(program_.memory.begin() + static_cast<std::ptrdiff_t>(copy));
  value.device_constant = nullptr;
  return Status::Ok();
}

Result<bool> RegionCompiler::Pack(const Use& use, const ops::TensorView& weight, StreamContext& stream) {
  const auto index = static_cast<int>(use.input);
  const ops::Operator& op = *use.step->op;
  CUDAEP_ASSIGN_OR_RETURN(const size_t bytes, op.PackedBytes(index, weight));
  if (bytes == 0) return false;
  CUDAEP_ASSIGN_OR_RETURN(std::shared_ptr<void> packed,
                          ops::PackWeight(op, index, weight, bytes, use.step->label, stream));
  if (packed == nullptr) return false;
  use.step->packed[use.input] = packed.get();
  program_.memory.push_back(std::move(packed));
  return true;
}

}  // namespace cudaep::abi
