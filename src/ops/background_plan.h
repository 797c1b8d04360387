// Library plans that are compiled at run time, on the plan store's own thread.
#pragma once

#include <functional>

#include "lib/dnn.h"
#include "runtime/plan_store.h"
#include "runtime/stream_context.h"

namespace cudaep::ops {

// For PlanStore::ReplaceInBackground: `make` with a handle of its own, on a thread that may do what a capture elsewhere
// forbids. A plan that waits for its turn does not keep the memory of its session, and fails when that has ended.
PlanStore::Make OnOwnHandle(const StreamContext& stream, std::function<Result<LibraryPlanPtr>(dnn::Handle&)> make);

}  // namespace cudaep::ops
