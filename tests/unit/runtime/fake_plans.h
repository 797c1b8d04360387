// Plans that say no more than who made them, for tests of the store.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "core/strings.h"
#include "runtime/plan_store.h"

namespace cudaep {

class FakePlan : public lib::Plan {
 public:
  FakePlan(std::string choice, size_t workspace_bytes = 0, bool relu = false) {
    choice_ = std::move(choice);
    workspace_bytes_ = workspace_bytes;
    if (relu) remaining_.activation = Activation::kRelu;
  }
  Result<std::string> Save() const override { return StrCat("saved ", choice_); }
};

inline PlanStore::Make Makes(const std::string& choice) {
  return [choice](const std::string& saved) -> Result<LibraryPlanPtr> {
    return LibraryPlanPtr(std::make_shared<FakePlan>(saved.empty() ? choice : saved));
  };
}

inline PlanStore::Make Fails(StatusCode code) {
  return [code](const std::string&) -> Result<LibraryPlanPtr> { return Status(code, "cannot"); };
}

inline PlanStore::Request For(std::string_view problem, std::string_view file = {}) {
  return {.ordinal = 0, .library = "library 1", .problem = problem, .file = file};
}

}  // namespace cudaep
