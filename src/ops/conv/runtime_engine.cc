#include "ops/conv/runtime_engine.h"

#include "ops/background_plan.h"

namespace cudaep::ops {
namespace {

constexpr int kMostCompiled = 128;

bool MayTake(const dnn::ConvProblem& p) {
  return p.layout == dnn::Layout::kChannelsLast && p.direction == dnn::Direction::kForward && p.groups == 1 &&
         kFloat16Types.Contains(p.types.a) && !p.deterministic;
}

}  // namespace

CompileBudget& CompileBudget::Process() {
  static CompileBudget budget(kMostCompiled);
  return budget;
}

void CompileInBackground(const dnn::ConvProblem& p, const StreamContext& stream, const PlanSlotPtr& slot,
                         CompileBudget& budget) {
  const bool is_open = slot->progress() == PlanSlot::Progress::kIdle && slot->plan().choice() != dnn::kRuntimeEngine;
  if (!is_open || !MayTake(p) || !budget.Take()) return;
  auto make = [p, limit = slot->plan().workspace_bytes()](dnn::Handle& handle) -> Result<LibraryPlanPtr> {
    auto plan = dnn::MakePlan(handle, p, limit, dnn::kRuntimeEngine);
    if (plan.status().code() == StatusCode::kInvalidArgument) return NotSupported(plan.status().message());
    CUDAEP_RETURN_IF_ERROR(plan.status());
    return LibraryPlanPtr(std::move(plan).value());
  };
  PlanStore::Process().ReplaceInBackground(slot, OnOwnHandle(stream, std::move(make))).IgnoreError();
}

}  // namespace cudaep::ops
