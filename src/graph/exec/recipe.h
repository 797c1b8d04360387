// A region's plan for one set of input dimensions: shapes, steps with their plans, and where each value lies.
#pragma once

#include "graph/exec/kept_results.h"
#include "graph/exec/program.h"
#include "graph/exec/step_plans.h"

namespace cudaep::graph {

// Where a value is read and written on the device.
struct Place {
  enum class Kind : uint8_t {
    kNowhere,   // nobody reads it on the device
    kInput,     // memory of the caller's: `at` is the region's input,
    kOutput,    // or output
    kConstant,  // the program's
    kBlock,     // `in_block` bytes into the recipe's block,
    kKept,      // or `at` bytes into what it keeps, where that is there
  };
  Kind kind = Kind::kNowhere;
  size_t at = 0, in_block = 0;
  size_t offset = 0;  // bytes behind that: of a part of another value

  bool operator==(const Place&) const = default;
};

struct Recipe final : ops::Plan {
  struct Value {
    Shape dims;
    Place place;
    ops::HostTensor host;  // what shape arithmetic came to
  };
  struct Step {
    SharedPlan plan = {};             // null: done, or nothing to do
    std::vector<Shape> outputs = {};  // of op
    size_t scratch = 0;               // where the plan's scratch memory lies in the block
  };
  // What graphs that replay a recipe need of it (OperatorGraphs).
  struct Work {
    std::vector<Step> steps;
    std::unique_ptr<KeptResults> kept;  // null: nothing
  };
  // When a step runs, where results are kept: in every call, for what is kept, or both.
  enum class Runs : uint8_t { kAlways, kOnce, kBoth };
  // A part of the block in use, for devices that check blocks.
  struct Part {
    size_t offset = 0, bytes = 0;
    int first = 0, last = 0;  // steps
  };
  std::vector<Value> values;
  std::shared_ptr<const Work> work;
  std::vector<Runs> runs;  // of each step
  std::vector<Part> parts;
  uint64_t graph_plan = 0;  // 0: never launched as a graph

  const std::vector<Step>& steps() const { return work->steps; }
};

// Shapes of all values; of those that are known from shapes alone, the elements too. Errors name the node.
Result<std::vector<Recipe::Value>> InferValues(const Program& program, ops::TensorViews inputs);

// `plans`: of each step, what recipes before have planned for it. `kept`: what all recipes of the program keep.
Result<std::unique_ptr<Recipe>> MakeRecipe(const Program& program, std::span<StepPlans> plans,
                                           const std::shared_ptr<KeptResults::Total>& kept,
                                           const ops::PlanContext& context);

// What a step's operator sees of its inputs: pointers into host memory for those it reads there, `device` of a value
// for the others (null: not known yet).
template <class Device>
void ViewInputs(const Program& program, const std::vector<Recipe::Value>& values, const ProgramStep& step,
                Device&& device, ops::TensorView* views) {
  for (size_t i = 0; i < step.inputs.size(); ++i) {
    views[i] = {};
    const int index = step.inputs[i];
    if (index < 0) continue;
    const ProgramValue& value = program.values[static_cast<size_t>(index)];
    const Recipe::Value& known = values[static_cast<size_t>(index)];
    views[i].dim = known.dims.data();
    views[i].rank = known.dims.rank();
    views[i].type = value.type;
    if (step.ReadsOnHost(i)) {
      views[i].data = value.is_constant ? value.host_constant.data.data() : known.host.data.data();
    } else if (step.packed[i] != nullptr) {
      views[i].data = step.packed[i];
      views[i].packed = true;
    } else {
      views[i].data = device(index);
    }
  }
}

}  // namespace cudaep::graph
