// A compiled region as an operator: what runs one node runs a region too, with its plans, scratch memory and errors.
//
// For the dimensions of the inputs MakePlan makes a Recipe: shapes of all values, shape arithmetic evaluated, a plan
// for each step, and one block of memory in which all values that stay inside have their place. The block is the plan's
// scratch memory, so it belongs to the Run's stream, and Runs on several streams share nothing.
// Values that leave the region are written where the caller wants them, by their own step. Other outputs that are an
// input's buffer (Reshape) or may overwrite it (Add) do so where nothing else reads it afterwards.
// A call that comes again, with the same recipe on the same memory, is launched as one CUDA graph
// (runtime/operator_graphs.h), but while somebody profiles: then each step is. What follows from the dimensions alone
// is kept as soon as they come again, and its steps are left out (graph/exec/kept_results.h).
#pragma once

#include "graph/exec/program.h"
#include "graph/exec/recipe.h"
#include "runtime/operator_graphs.h"

namespace cudaep::graph {

class RegionOperator final : public ops::Operator {
 public:
  explicit RegionOperator(Program program);

  Status InferShapes(ops::TensorViews inputs, std::vector<Shape>& outputs) const override;
  Result<ops::PlanPtr> MakePlan(const ops::PlanContext& context) const override;
  LibrarySet libraries() const override { return libraries_; }
  // Threads: one call at a time on each stream.
  Status Enqueue(const ops::Plan& plan, const ops::OpContext& context) const override;

 private:
  // Those that run in calls of that kind. `kept`: where the recipe's kept values lie; null: in the block.
  Status EnqueueSteps(const Recipe& recipe, const ops::OpContext& context, std::byte* kept,
                      std::initializer_list<Recipe::Runs> kinds) const;

  const Program program_;
  const LibrarySet libraries_;
  const std::unique_ptr<StepPlans[]> plans_;   // of each step
  size_t most_inputs_ = 0, most_outputs_ = 0;  // of a step
  const std::shared_ptr<KeptResults::Total> kept_ = std::make_shared<KeptResults::Total>(0);
  mutable OperatorGraphs graphs_;  // of the program's weights
};

}  // namespace cudaep::graph
