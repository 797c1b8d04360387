// Convolutions by engines that the library compiles at run time, in the background while others serve: those of few
// multiplications, where a launch's way to its first product is what counts, by one which takes part in programmatic
// dependent launch and which heuristics never suggest; and those whose activation no precompiled engine has.
#pragma once

#include <string>
#include <vector>

#include "ops/background_plan.h"

namespace cudaep::ops {

// Whether kRuntimeEngine may do the problem: by its types and form alone.
bool TakesRuntimeEngine(const dnn::ConvProblem& problem);

// Has a plan by the first of `choices` (dnn::MakePlan) that does the problem take the place of the slot's first one
// (PlanStore::ReplaceInBackground) where MayCompile says so: not of a deterministic problem, whose bits would change on
// the way. What has begun, was done or was refused is not begun again.
void CompileInBackground(const dnn::ConvProblem& problem, const StreamContext& stream, const PlanSlotPtr& slot,
                         std::vector<std::string> choices, CompileBudget& budget = CompileBudget::Process());

}  // namespace cudaep::ops
