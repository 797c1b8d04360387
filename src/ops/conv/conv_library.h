// Convolution by the vendor library: its plans, measured or by heuristic, and calls with tensors of any alignment.
#pragma once

#include "ops/conv/conv_run.h"

namespace cudaep::ops {

// The most that a library plan may have by the options, whatever is free.
size_t WorkspaceLimit(const ConvOptions& options);

// From the plan store.
Result<PlanSlotPtr> FindConvPlan(const ConvOptions& options, const dnn::ConvProblem& problem, StreamContext& stream);

// Tensors that the library would refuse for their alignment are copied into the stream's workspace, behind the plan's
// own.
Status EnqueueConvLibrary(const dnn::ConvProblem& problem, const dnn::ConvPlan& plan, StreamContext& stream,
                          const dnn::ConvPointers& at);

}  // namespace cudaep::ops
