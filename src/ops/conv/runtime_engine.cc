#include "ops/conv/runtime_engine.h"

namespace cudaep::ops {

bool TakesRuntimeEngine(const dnn::ConvProblem& p) {
  return p.layout == dnn::Layout::kChannelsLast && p.direction == dnn::Direction::kForward && p.groups == 1 &&
         kFloat16Types.Contains(p.types.a);
}

void CompileInBackground(const dnn::ConvProblem& p, const StreamContext& stream, const PlanSlotPtr& slot,
                         std::vector<std::string> choices, CompileBudget& budget) {
  const bool is_open = slot->progress() == PlanSlot::Progress::kIdle && !slot->is_replaced();
  if (choices.empty() || p.deterministic || !is_open || !MayCompile(stream, budget)) return;
  auto make = [p, limit = slot->plan().workspace_bytes(),
               choices = std::move(choices)](dnn::Handle& handle) -> Result<LibraryPlanPtr> {
    Status refusal;
    for (const std::string& choice : choices) {
      auto plan = dnn::MakePlan(handle, p, limit, choice);
      if (plan.ok()) return LibraryPlanPtr(std::move(plan).value());
      refusal = std::move(plan).status();
      const bool is_refused =
          refusal.code() == StatusCode::kNotSupported || refusal.code() == StatusCode::kInvalidArgument;
      if (!is_refused) return refusal;
    }
    return NotSupported(refusal.message());
  };
  PlanStore::Process().ReplaceInBackground(slot, OnOwnHandle(stream, std::move(make), budget)).IgnoreError();
}

}  // namespace cudaep::ops
