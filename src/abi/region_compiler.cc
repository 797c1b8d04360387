#include "abi/region_compiler.h"

#include <algorithm>

#include "abi/host_tensor.h"
#include "core/log.h"
#include "memory/allocation_label.h"
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
  return OnOwnStream(state_.memory(), [this](StreamContext& stream) -> Status {
    for (const auto& [value, tensor] : constants_) {
      CUDAEP_RETURN_IF_ERROR(
          CopyConstant(value, stream)
              .WithContext(StrCat("constant '", program_.values[Index(value)].name, "' of a region")));
    }
    return Status::Ok();
  });
}

// One that is only read in packed form goes from the device again.
Status RegionCompiler::CopyConstant(int index, StreamContext& stream) {
  graph::ProgramValue& value = program_.values[Index(index)];
  ops::TensorView view;
  CUDAEP_RETURN_IF_ERROR(ViewTensor(constants_[index], &view));
  bool on_host = false, on_device = false;
  std::vector<std::pair<graph::ProgramStep*, int>> packers;
  for (graph::ProgramStep& step : program_.steps) {
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      if (step.inputs[i] != index) continue;
      if (step.ReadsOnHost(i)) {
        on_host = true;
        continue;
      }
      CUDAEP_ASSIGN_OR_RETURN(const size_t bytes, step.op->PackedBytes(static_cast<int>(i), view));
      if (bytes != 0) packers.emplace_back(&step, static_cast<int>(i));
      if (bytes == 0) on_device = true;
    }
  }
  const auto* source = static_cast<const std::byte*>(view.data);
  if (on_host) value.host_constant.data.assign(source, source + view.bytes());
  if ((!on_device && packers.empty()) || view.bytes() == 0) return Status::Ok();

  CUDAEP_ASSIGN_OR_RETURN(value.device_constant, Reserve(view.bytes()));
  const size_t copy = program_.memory.size() - 1;
  CUDAEP_RETURN_IF_ERROR(device::MemcpyAsync(value.device_constant, view.data, view.bytes(), stream.stream()));
  ops::TensorView weight = view;
  weight.data = value.device_constant;
  for (const auto& [step, input] : packers) {
    const Status packed = Pack(*step, input, weight, stream);
    // The operator takes it as it is then.
    const bool is_none = packed.code() == StatusCode::kNotSupported || packed.code() == StatusCode::kOutOfMemory;
    if (!packed.ok() && !is_none) return packed;
    if (packed.code() == StatusCode::kOutOfMemory) {
      Log(LogLevel::kWarning, "a weight is used as it is, since there is no memory to pack it: ", packed.message());
    }
    on_device = on_device || is_none;
  }
  if (on_device) return Status::Ok();
  CUDAEP_RETURN_IF_ERROR(device::StreamSynchronize(stream.stream()));
  program_.memory.erase(program_.memory.begin() + static_cast<std::ptrdiff_t>(copy));
  value.device_constant = nullptr;
  return Status::Ok();
}

Status RegionCompiler::Pack(graph::ProgramStep& step, int input, const ops::TensorView& weight, StreamContext& stream) {
  const memory::LabelScope label(step.label);
  CUDAEP_ASSIGN_OR_RETURN(const size_t bytes, step.op->PackedBytes(input, weight));
  CUDAEP_ASSIGN_OR_RETURN(void* const packed, Reserve(bytes));
  Status status = step.op->Pack(input, weight, packed, stream);
  if (status.ok()) {
    step.packed[Index(input)] = packed;
  } else {
    program_.memory.pop_back();
  }
  return status;
}

Result<void*> RegionCompiler::Reserve(size_t bytes) {
  const std::shared_ptr<memory::Allocator> weights = state_.memory()->weights();
  CUDAEP_ASSIGN_OR_RETURN(void* const pointer, weights->Reserve(bytes));
  program_.memory.emplace_back(pointer, [weights](void* block) { weights->Free(block); });
  return pointer;
}

}  // namespace cudaep::abi
