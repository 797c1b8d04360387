#include "graph/exec/program_builder.h"

#include <algorithm>

#include "core/strings.h"
#include "graph/exec/stated_dims.h"
#include "graph/exec/uploads.h"
#include "memory/allocation_label.h"
#include "ops/packed_weight.h"

namespace cudaep::graph {
namespace {

// An input of a step that reads a value.
struct Use {
  ProgramStep* step;
  size_t input;

  bool on_host() const { return step->ReadsOnHost(input); }
};

std::string LabelOf(const ir::Node& node) {
  if (node.sources.size() == 1) return node.sources.front();
  std::string label = StrCat(node.op_type, " of ");
  for (size_t i = 0; i < node.sources.size(); ++i) label += StrCat(i == 0 ? "" : " + ", node.sources[i]);
  return label;
}

Result<ProgramStep> MakeStep(const ir::Graph& graph, const ir::Node& node, const Settings& settings) {
  const ir::NodeInfo info(graph, node, settings);
  ProgramStep step;
  step.inputs = node.inputs;
  step.outputs = node.outputs;
  step.label = memory::InternLabel(LabelOf(node));
  const bool is_models = node.sources.size() == 1 && !node.name.empty();
  step.shown = {.name = is_models ? memory::InternLabel(node.name) : step.label,
                .op_type = memory::InternLabel(node.op_type),
                .type = memory::InternLabel(DataTypeName(info.output_type(0)))};
  if (node.on_host) {
    CUDAEP_ASSIGN_OR_RETURN(step.host_op, MakeHostOperator(info));
    step.reads_dims_only = ReadsDimsOnly(info);
    return step;
  }
  step.once = node.once;
  step.row = ops::FindRow(node.domain, node.op_type, node.since_version);
  if (step.row == nullptr) return ops::MissingRow(info);
  Result<ops::OperatorPtr> made = ops::MakeOperator(info, *step.row);
  if (!made.ok()) return std::move(made).status().WithContext(step.label);
  step.op = std::move(made).value();
  step.packed.resize(step.inputs.size());
  return step;
}

// A fused node leaves the nodes that it does where shape arithmetic asks for the dimensions of what they make.
void FindStepsThatRun(Program& program) {
  std::vector<uint8_t> is_read(program.values.size(), 0);
  for (const int output : program.outputs) is_read[static_cast<size_t>(output)] = 1;
  for (size_t s = program.steps.size(); s-- > 0;) {
    ProgramStep& step = program.steps[s];
    const auto reads = [&](int value) { return value >= 0 && is_read[static_cast<size_t>(value)] != 0; };
    step.runs = step.host_op != nullptr || std::ranges::any_of(step.outputs, reads);
    if (!step.runs || step.reads_dims_only) continue;
    for (const int input : step.inputs) {
      if (input >= 0) is_read[static_cast<size_t>(input)] = 1;
    }
  }
}

// False where the step takes the weight as it is.
Result<bool> Pack(const Use& use, const ops::TensorView& weight, Program& program, StreamContext& stream) {
  const auto index = static_cast<int>(use.input);
  const ops::Operator& op = *use.step->op;
  CUDAEP_ASSIGN_OR_RETURN(const size_t bytes, op.PackedBytes(index, weight));
  if (bytes == 0) return false;
  CUDAEP_ASSIGN_OR_RETURN(std::shared_ptr<void> packed,
                          ops::PackWeight(op, index, weight, bytes, use.step->label, stream));
  if (packed == nullptr) return false;
  use.step->packed[use.input] = packed.get();
  program.memory.push_back(std::move(packed));
  return true;
}

// One that is only read in packed form goes from the device again.
Status CopyConstant(const ir::Value& constant, ProgramValue& value, const std::vector<Use>& uses, Program& program,
                    WeightStore& weights, StreamContext& stream) {
  ops::TensorView weight = constant.constant;
  const auto* source = static_cast<const std::byte*>(weight.data);
  const size_t bytes = weight.bytes();
  if (std::any_of(uses.begin(), uses.end(), std::mem_fn(&Use::on_host))) {
    value.host_constant.data.assign(source, source + bytes);
  }
  if (std::all_of(uses.begin(), uses.end(), std::mem_fn(&Use::on_host)) || bytes == 0) return Status::Ok();

  CUDAEP_ASSIGN_OR_RETURN(std::shared_ptr<void> copy, weights.OnDevice(constant, stream));
  weight.data = copy.get();
  bool all_packed = true;
  for (const Use& use : uses) {
    if (use.on_host()) continue;
    CUDAEP_ASSIGN_OR_RETURN(const bool packed, Pack(use, weight, program, stream));
    all_packed = all_packed && packed;
  }
  if (all_packed) return device::StreamSynchronize(stream.stream());
  value.device_constant = copy.get();
  program.memory.push_back(std::move(copy));
  return Status::Ok();
}

}  // namespace

Result<Program> BuildProgram(ir::Graph graph, const Settings& settings, WeightStore& weights, StreamContext& stream) {
  AddUploads(graph, settings.fusion && !settings.fusion_skip.Contains(Fusion::kOnce));
  Program program;
  program.inputs = graph.inputs;
  program.outputs = graph.outputs;
  program.stated_dims = StatedDimsOf(graph);
  program.replays = settings.region_graphs;
  for (const ir::Value& value : graph.values) {
    ProgramValue& made = program.values.emplace_back();
    made.name = value.name;
    made.type = value.type;
    made.input = value.input;
    made.output = value.output;
    made.is_constant = value.is_constant();
    if (made.is_constant) made.host_constant = {value.constant.type, Shape(value.constant.dims()), {}};
  }
  for (const ir::Node& node : graph.nodes) {
    CUDAEP_ASSIGN_OR_RETURN(ProgramStep step, MakeStep(graph, node, settings));
    program.steps.push_back(std::move(step));
  }
  FindStepsThatRun(program);
  std::vector<std::vector<Use>> uses(graph.values.size());
  for (ProgramStep& step : program.steps) {
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      const bool is_use = step.inputs[i] >= 0 && (step.runs || step.ReadsOnHost(i));
      if (is_use) uses[static_cast<size_t>(step.inputs[i])].push_back({&step, i});
    }
  }
  for (size_t v = 0; v < graph.values.size(); ++v) {
    if (!graph.values[v].is_constant()) continue;
    CUDAEP_RETURN_IF_ERROR(CopyConstant(graph.values[v], program.values[v], uses[v], program, weights, stream)
                               .WithContext(StrCat("constant '", graph.values[v].name, "' of ",
                                                   uses[v].empty() ? "a region" : uses[v].front().step->label)));
  }
  return program;
}

}  // namespace cudaep::graph
