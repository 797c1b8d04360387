#include "graph/exec/region_operator.h"

#include <alloca.h>

#include <algorithm>
#include <functional>

#include "device/blocks.h"
#include "graph/exec/recipe.h"
#include "memory/allocation_label.h"
#include "runtime/plan_store.h"
#include "runtime/profiler.h"

namespace cudaep::graph {
namespace {

// Tells a device that checks blocks which parts of a recipe's block are in use.
class Parts {
 public:
  Parts(const Recipe& recipe, const ops::OpContext& context) : recipe_(recipe), context_(context) {}
  // Also where a step fails: the block is another call's afterwards.
  ~Parts() {
    if constexpr (device::kChecksBlocks) {
      for (const Recipe::Part& part : recipe_.parts) {
        if (part.first <= step_ && step_ <= part.last) device::ForgetBlock(At(part));
      }
    }
  }
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;

  void Enter(int step) {
    if constexpr (device::kChecksBlocks) {
      for (const Recipe::Part& part : recipe_.parts) {
        if (part.last < step && part.last >= step_ && part.first <= step_) device::ForgetBlock(At(part));
      }
      for (const Recipe::Part& part : recipe_.parts) {
        if (part.first <= step && part.first > step_ && part.last >= step) {
          device::DeclareBlock(At(part), part.bytes, context_.stream());
        }
      }
    }
    step_ = step;
  }

 private:
  const std::byte* At(const Recipe::Part& part) const {
    return static_cast<const std::byte*>(context_.workspace) + part.offset;
  }

  const Recipe& recipe_;
  const ops::OpContext& context_;
  int step_ = -1;
};

LibrarySet LibrariesOf(const Program& program) {
  LibrarySet libraries;
  for (const ProgramStep& step : program.steps) {
    if (step.op != nullptr && step.runs) libraries = libraries | step.op->libraries();
  }
  return libraries;
}

}  // namespace

RegionOperator::RegionOperator(Program program)
    : program_(std::move(program)),
      libraries_(LibrariesOf(program_)),
      plans_(std::make_unique<StepPlans[]>(program_.steps.size())),
      graphs_(libraries_) {
  for (const ProgramStep& step : program_.steps) {
    most_inputs_ = std::max(most_inputs_, step.inputs.size());
    most_outputs_ = std::max(most_outputs_, step.outputs.size());
  }
}

Status RegionOperator::InferShapes(ops::TensorViews inputs, std::vector<Shape>& outputs) const {
  CUDAEP_ASSIGN_OR_RETURN(std::vector<Recipe::Value> values, InferValues(program_, inputs));
  for (size_t i = 0; i < program_.outputs.size(); ++i) {
    outputs[i] = std::move(values[static_cast<size_t>(program_.outputs[i])].dims);
  }
  return Status::Ok();
}

Result<ops::PlanPtr> RegionOperator::MakePlan(const ops::PlanContext& context) const {
  CUDAEP_ASSIGN_OR_RETURN(std::unique_ptr<Recipe> recipe,
                          MakeRecipe(program_, {plans_.get(), program_.steps.size()}, kept_, context));
  return ops::PlanPtr(std::move(recipe));
}

Status RegionOperator::Enqueue(const ops::Plan& plan, const ops::OpContext& context) const {
  using enum Recipe::Runs;
  const auto& recipe = ops::PlanAs<Recipe>(plan);
  const auto compute = [&](std::byte* memory) { return EnqueueSteps(recipe, context, memory, {kOnce, kBoth}); };
  KeptResults* const results = recipe.work->kept.get();
  std::byte* const kept = results == nullptr ? nullptr : results->For(context.runtime, std::cref(compute));
  const auto queue = [&](const ops::OpContext& call) {
    if (kept != nullptr) return EnqueueSteps(recipe, call, kept, {kAlways, kBoth});
    return EnqueueSteps(recipe, call, nullptr, {kAlways, kOnce, kBoth});
  };
  if (recipe.graph_plan == 0 || profile::IsRecording()) return queue(context);
  const size_t count = context.inputs.size() + program_.outputs.size() + (recipe.settled ? 2 : 3);
  auto** addresses = static_cast<const void**>(alloca(sizeof(void*) * count));
  const void** next = addresses;
  for (const ops::TensorView& input : context.inputs) *next++ = input.data;
  next = std::copy_n(context.outputs, program_.outputs.size(), next);
  *next++ = context.workspace;
  *next++ = kept;
  // A graph with plans that have been replaced since is not met any more.
  if (!recipe.settled) *next = reinterpret_cast<const void*>(PlanStore::Process().replacements());
  return graphs_.Run(context.runtime, {recipe.graph_plan, {addresses, count}}, recipe.work, [&](StreamContext& on) {
    return queue({context.inputs, context.outputs, context.workspace, on, context.shapes});
  });
}

Status RegionOperator::EnqueueSteps(const Recipe& recipe, const ops::OpContext& context, std::byte* kept,
                                    std::initializer_list<Recipe::Runs> kinds) const {
  const auto base = [&](const Place& place) -> void* {
    switch (place.kind) {
      case Place::Kind::kNowhere:
        return nullptr;
      case Place::Kind::kInput:
        return const_cast<void*>(context.inputs[place.at].data);
      case Place::Kind::kOutput:
        return context.outputs[place.at];
      case Place::Kind::kConstant:
        return program_.values[place.at].device_constant;
      case Place::Kind::kKept:
        if (kept != nullptr) return kept + place.at;
        [[fallthrough]];
      case Place::Kind::kBlock:
        return static_cast<std::byte*>(context.workspace) + place.in_block;
    }
    return nullptr;
  };
  const auto address = [&](int index) -> void* {
    const Place& place = recipe.values[static_cast<size_t>(index)].place;
    return place.offset == 0 ? base(place) : static_cast<std::byte*>(base(place)) + place.offset;
  };
  auto* views = static_cast<ops::TensorView*>(alloca(sizeof(ops::TensorView) * most_inputs_));
  auto** outputs = static_cast<void**>(alloca(sizeof(void*) * most_outputs_));
  Parts parts(recipe, context);
  for (size_t s = 0; s < program_.steps.size(); ++s) {
    const ProgramStep& step = program_.steps[s];
    const Recipe::Step& planned = recipe.steps()[s];
    if (planned.plan == nullptr || std::ranges::find(kinds, recipe.runs[s]) == kinds.end()) continue;
    const memory::LabelScope label(step.label);
    const profile::CallScope range(step.label);
    const profile::PartScope profiled(step.shown);
    parts.Enter(static_cast<int>(s));
    ViewInputs(program_, recipe.values, step, address, views);
    for (size_t i = 0; i < step.outputs.size(); ++i) {
      outputs[i] = step.outputs[i] < 0 || planned.outputs[i].elems() == 0 ? nullptr : address(step.outputs[i]);
    }
    // A plan without scratch memory gets no address: it would be another step's.
    void* const scratch =
        planned.plan->workspace_bytes == 0 ? nullptr : static_cast<std::byte*>(context.workspace) + planned.scratch;
    const ops::OpContext inner{ops::TensorViews(views, step.inputs.size()), outputs, scratch, context.runtime,
                               planned.outputs};
    if (Status queued = step.op->Enqueue(*planned.plan, inner); !queued.ok()) {
      return std::move(queued).WithContext(step.label);
    }
    if (profiled.is_on()) [[unlikely]]
      profile::DescribeCall(planned.plan->cost_bytes, planned.plan->cost_flops);
    if (ReplayedNodes* const captured = context.runtime.captured_nodes()) [[unlikely]] {
      captured->NodeQueued(context.stream(), {step.shown.name, step.shown.op_type, planned.plan->cost_bytes,
                                              planned.plan->cost_flops, step.shown.type});
    }
  }
  return Status::Ok();
}

}  // namespace cudaep::graph
