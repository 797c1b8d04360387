// Convolution by the vendor library: its plans, measured or by heuristic, and calls with tensors of any alignment.
#pragma once

#include "ops/conv/conv_run.h"

namespace cudaep::ops {

// The most that a library plan may have by the options, whatever is free.
size_t WorkspaceLimit(const ConvOptions& options);

// From the plan store, where a faster plan may take its place later (PlanSlot::progress). Of a problem whose tensors
// are parts the first plan is for tensors without gaps (dnn::ConvPlan::takes_parts): what takes parts is compiled.
Result<PlanSlotPtr> FindConvPlan(const ConvOptions& options, const dnn::ConvProblem& problem, StreamContext& stream);
void TakeLibrary(ConvRunPlan* plan, PlanSlotPtr library);

// With earlier work done first where the plan would not wait for it before it reads the residual. A bias is constant,
// or the plan does not begin early (ProductOptions::compiles).
Status EnqueueConvPlan(StreamContext& stream, const dnn::ConvPlan& plan, const dnn::ConvPointers& at);
// The same; tensors may have any alignment.
Status EnqueueConvLibrary(const dnn::ConvProblem& problem, const dnn::ConvPlan& plan, StreamContext& stream,
                          const dnn::ConvPointers& at);

}  // namespace cudaep::ops
