#include "graph/exec/recipe.h"

#include <algorithm>

#include "graph/exec/buffers.h"
#include "graph/exec/once.h"
#include "graph/exec/stated_dims.h"
#include "runtime/operator_graphs.h"

namespace cudaep::graph {
namespace {

// More than any device has; sums of so many bytes do not overflow.
constexpr size_t kMostBytes = size_t{1} << 46;

// Fewer launches gain less by a graph than it takes.
constexpr int kFewestLaunches = 3;

Status CheckBytes(DataType type, Dims dims) {
  CUDAEP_ASSIGN_OR_RETURN(const int64_t elems, CheckedElementCount(dims));
  if (static_cast<size_t>(elems) <= kMostBytes && StorageBytes(type, elems) <= kMostBytes) return Status::Ok();
  return OutOfMemory("a value of shape ", dims, " is larger than any memory");
}

Status EvaluateStep(const ProgramStep& step, ops::TensorViews views, std::vector<Recipe::Value>& values) {
  std::vector<ops::HostTensor> outputs;
  CUDAEP_RETURN_IF_ERROR(step.host_op->Evaluate(views, outputs));  // which names the node
  for (size_t i = 0; i < step.outputs.size(); ++i) {
    if (step.outputs[i] < 0) continue;
    Recipe::Value& value = values[static_cast<size_t>(step.outputs[i])];
    value.host = std::move(outputs[i]);
    value.dims = value.host.dims;
  }
  return Status::Ok();
}

Result<std::vector<Shape>> InferOutputs(const Program& program, const ProgramStep& step, ops::TensorViews views) {
  std::vector<Shape> shapes(step.outputs.size());
  CUDAEP_RETURN_IF_ERROR(step.op->InferShapes(views, shapes));
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (step.outputs[i] < 0) continue;
    CUDAEP_RETURN_IF_ERROR(CheckBytes(program.values[static_cast<size_t>(step.outputs[i])].type, shapes[i]));
  }
  return shapes;
}

// Shapes of what each step makes, in order, and the elements of shape arithmetic. `outputs_of` says the former of the
// step with an index that runs on the device, given its inputs.
template <class OutputsOf>
Status InferSteps(const Program& program, ops::TensorViews inputs, std::vector<Recipe::Value>& values,
                  OutputsOf&& outputs_of) {
  values.resize(program.values.size());
  for (size_t v = 0; v < values.size(); ++v) {
    const ProgramValue& value = program.values[v];
    if (value.is_constant) values[v].dims = value.host_constant.dims;
    if (value.input >= 0) values[v].dims = Shape(inputs[static_cast<size_t>(value.input)].dims());
  }
  std::vector<ops::TensorView> views;
  for (size_t s = 0; s < program.steps.size(); ++s) {
    const ProgramStep& step = program.steps[s];
    views.resize(step.inputs.size());
    ViewInputs(
        program, values, step, [](int) { return nullptr; }, views.data());
    if (step.host_op != nullptr) {
      CUDAEP_RETURN_IF_ERROR(EvaluateStep(step, views, values));
      continue;
    }
    Result<std::vector<Shape>> shapes = outputs_of(s, ops::TensorViews(views));
    if (!shapes.ok()) return ExplainByDims(std::move(shapes).status().WithContext(step.label), program, inputs);
    for (size_t i = 0; i < step.outputs.size(); ++i) {
      if (step.outputs[i] >= 0) values[static_cast<size_t>(step.outputs[i])].dims = std::move(shapes.value()[i]);
    }
  }
  return Status::Ok();
}

// How much that is together.
size_t PlaceKept(std::vector<Buffers::Buffer>& buffers) {
  size_t bytes = 0;
  for (Buffers::Buffer& buffer : buffers) {
    if (!buffer.kept || buffer.place.kind != Place::Kind::kBlock) continue;
    buffer.place = {Place::Kind::kKept, bytes};
    bytes += AlignUp(buffer.life.bytes, kBufferAlignment);
  }
  return bytes;
}

double Bytes(DataType type, Dims dims) { return static_cast<double>(StorageBytes(type, ElementCount(dims))); }

void StateCost(const Program& program, const ProgramStep& step, ops::TensorViews views,
               const std::vector<Shape>& outputs, ops::Plan* plan) {
  if (plan->cost_bytes != 0) return;
  for (const ops::TensorView& view : views) plan->cost_bytes += view.present() ? Bytes(view.type, view.dims()) : 0;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (step.outputs[i] < 0) continue;
    plan->cost_bytes += Bytes(program.values[static_cast<size_t>(step.outputs[i])].type, outputs[i]);
  }
}

// Whether the operator has a key of its own, as in ops::PlannedOperator. What a plan may take of the stream's memory is
// a part of it too.
bool MakeKey(const ProgramStep& step, ops::TensorViews views, StreamContext& stream, ops::PlanKey& key) {
  key.Add(static_cast<int64_t>(stream.workspace().PlanLimit()));
  if (step.op->MakePlanKey(views, key)) return true;
  for (size_t i = 0; i < views.size(); ++i) {
    key.AddDims(views[i]);
    if (step.ReadsOnHost(i) && step.op->PlanReadsHostInput(static_cast<int>(i))) key.AddValue(views[i]);
  }
  return false;
}

Result<Recipe::Step> PlanStep(const Program& program, const ProgramStep& step, ops::TensorViews views, StepPlans& plans,
                              const ops::PlanContext& context) {
  if (!step.runs) {
    CUDAEP_ASSIGN_OR_RETURN(std::vector<Shape> outputs, InferOutputs(program, step, views));
    return Recipe::Step{.outputs = std::move(outputs)};
  }
  ops::PlanKey key;
  const bool own_key = MakeKey(step, views, context.runtime, key);
  Recipe::Step made{.plan = plans.Find(key)};
  if (made.plan != nullptr && !own_key) {
    made.outputs = made.plan->outputs;
    return made;
  }
  CUDAEP_ASSIGN_OR_RETURN(made.outputs, InferOutputs(program, step, views));
  const auto is_empty = [](const Shape& shape) { return shape.elems() == 0; };
  if (!made.outputs.empty() && std::all_of(made.outputs.begin(), made.outputs.end(), is_empty)) {
    made.plan = nullptr;
    return made;
  }
  if (made.plan != nullptr) return made;
  CUDAEP_ASSIGN_OR_RETURN(ops::PlanPtr plan, step.op->MakePlan({views, made.outputs, context.runtime, context.device}));
  if (plan->workspace_bytes > kMostBytes) return OutOfMemory("scratch memory larger than any memory");
  StateCost(program, step, views, made.outputs, plan.get());
  if (!own_key) plan->outputs = made.outputs;
  made.plan = std::move(plan);
  plans.Add(key, made.plan);
  return made;
}

// What the steps' plans say, together; those that run once cost a steady call nothing.
void AddUp(const std::vector<Recipe::Step>& steps, Recipe& recipe) {
  for (size_t s = 0; s < steps.size(); ++s) {
    const Recipe::Step& step = steps[s];
    if (step.plan == nullptr) continue;
    if (recipe.runs[s] != Recipe::Runs::kOnce) {
      recipe.cost_bytes += step.plan->cost_bytes;
      recipe.cost_flops += step.plan->cost_flops;
    }
    recipe.synchronizes = recipe.synchronizes || step.plan->synchronizes;
    recipe.capturable = recipe.capturable && step.plan->capturable;
    recipe.settled = recipe.settled && step.plan->settled;
  }
}

// Whether the output lies there.
bool LiesIn(const ProgramStep& step, const std::vector<Recipe::Value>& values, const ops::PartOfInput& part) {
  const auto input = static_cast<size_t>(part.input), output = static_cast<size_t>(part.output);
  if (input >= step.inputs.size() || step.inputs[input] < 0 || step.outputs[output] < 0) return false;
  Place place = values[static_cast<size_t>(step.inputs[input])].place;
  place.offset += part.offset_bytes;
  return place == values[static_cast<size_t>(step.outputs[output])].place;
}

bool IsView(const ProgramStep& step, const ops::Plan& plan, const std::vector<Recipe::Value>& values) {
  const auto is_view = [&](const ops::BufferPair& pair) { return LiesIn(step, values, {pair.input, pair.output}); };
  if (std::ranges::any_of(step.row->aliases, is_view)) return true;
  return !plan.parts.empty() && std::ranges::all_of(plan.parts, [&](const ops::PartOfInput& part) {
    return step.outputs[static_cast<size_t>(part.output)] < 0 || LiesIn(step, values, part);
  });
}

// Steps that queue work in a steady call, as far as is known.
int Launches(const Program& program, const Recipe& recipe) {
  int count = 0;
  for (size_t s = 0; s < program.steps.size(); ++s) {
    const ops::Plan* const plan = recipe.steps()[s].plan.get();
    if (plan == nullptr || recipe.runs[s] == Recipe::Runs::kOnce) continue;
    if (!IsView(program.steps[s], *plan, recipe.values)) ++count;
  }
  return count;
}

}  // namespace

Result<std::vector<Recipe::Value>> InferValues(const Program& program, ops::TensorViews inputs) {
  std::vector<Recipe::Value> values;
  CUDAEP_RETURN_IF_ERROR(InferSteps(program, inputs, values, [&](size_t s, ops::TensorViews views) {
    return InferOutputs(program, program.steps[s], views);
  }));
  return values;
}

Result<std::unique_ptr<Recipe>> MakeRecipe(const Program& program, std::span<StepPlans> plans,
                                           const std::shared_ptr<KeptResults::Total>& kept,
                                           const ops::PlanContext& context) {
  auto recipe = std::make_unique<Recipe>();
  std::vector<Recipe::Step> steps(program.steps.size());
  const auto plan = [&](size_t s, ops::TensorViews views) -> Result<std::vector<Shape>> {
    CUDAEP_ASSIGN_OR_RETURN(steps[s], PlanStep(program, program.steps[s], views, plans[s], context));
    return steps[s].outputs;
  };
  CUDAEP_RETURN_IF_ERROR(InferSteps(program, context.inputs, recipe->values, plan));

  OnceSteps once = FindOnce(program, recipe->values, steps);
  Buffers buffers(program, recipe->values, steps, once);
  const size_t kept_bytes = PlaceKept(buffers.all());
  const auto is_in_block = [](const Place& place) {
    return place.kind == Place::Kind::kBlock || place.kind == Place::Kind::kKept;
  };
  std::vector<BufferLife> lives;
  for (const Buffers::Buffer& buffer : buffers.all()) {
    lives.push_back(is_in_block(buffer.place) ? buffer.life : BufferLife{});
  }
  for (size_t s = 0; s < steps.size(); ++s) {
    const ops::Plan* const plan = steps[s].plan.get();
    lives.push_back({plan == nullptr ? 0 : plan->workspace_bytes, static_cast<int>(s), static_cast<int>(s)});
  }
  const MemoryPlan memory = PlanMemory(lives);
  for (size_t b = 0; b < buffers.all().size(); ++b) {
    Place& place = buffers.all()[b].place;
    if (is_in_block(place)) place.in_block = memory.offsets[b];
  }
  for (size_t s = 0; s < steps.size(); ++s) steps[s].scratch = memory.offsets[buffers.all().size() + s];
  for (size_t i = 0; i < lives.size(); ++i) {
    if (lives[i].bytes != 0)
      recipe->parts.push_back({memory.offsets[i], lives[i].bytes, lives[i].first, lives[i].last});
  }
  for (size_t v = 0; v < recipe->values.size(); ++v) recipe->values[v].place = buffers.PlaceOf(v);
  recipe->workspace_bytes = memory.bytes;
  recipe->runs = std::move(once.steps);
  AddUp(steps, *recipe);
  std::unique_ptr<KeptResults> results = kept_bytes == 0 ? nullptr : std::make_unique<KeptResults>(kept_bytes, kept);
  recipe->work = std::make_shared<const Recipe::Work>(Recipe::Work{std::move(steps), std::move(results)});
  const bool may_replay = program.replays && recipe->capturable && !recipe->synchronizes;
  if (may_replay && Launches(program, *recipe) >= kFewestLaunches) recipe->graph_plan = OperatorGraphs::NewPlan();
  return recipe;
}

}  // namespace cudaep::graph
