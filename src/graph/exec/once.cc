#include "graph/exec/once.h"

#include <algorithm>

#include "graph/exec/memory_plan.h"

namespace cudaep::graph {
namespace {

using Runs = Recipe::Runs;

bool Replays(const Recipe::Step& step) {
  const ops::Plan* const plan = step.plan.get();
  return plan == nullptr || (plan->capturable && plan->settled && !plan->synchronizes);
}

class Finder {
 public:
  Finder(const Program& program, const std::vector<Recipe::Value>& values)
      : program_(program),
        values_(values),
        found_{.steps = std::vector<Runs>(program.steps.size(), Runs::kAlways),
               .is_kept = std::vector<uint8_t>(values.size(), 0)} {}

  OnceSteps Find(const std::vector<Recipe::Step>& steps) {
    if (std::ranges::none_of(program_.steps, &ProgramStep::once)) return std::move(found_);
    FindKnown(steps);
    // From the last one, so that it is settled who reads a step's results.
    for (size_t s = steps.size(); s-- > 0;) {
      if (program_.steps[s].op != nullptr && program_.steps[s].runs) Settle(s);
    }
    return std::move(found_);
  }

 private:
  using Marks = std::vector<uint8_t>;  // of values

  static bool Any(const std::vector<int>& of, const Marks& marks) {
    return std::ranges::any_of(of, [&](int value) { return value >= 0 && marks[static_cast<size_t>(value)] != 0; });
  }

  // Calls visit(value) for what the step reads on the device of other steps or of the caller.
  template <class Visit>
  void ForEachRead(const ProgramStep& step, Visit&& visit) const {
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      if (step.inputs[i] < 0 || step.ReadsOnHost(i)) continue;
      const auto value = static_cast<size_t>(step.inputs[i]);
      if (!program_.values[value].is_constant) visit(value);
    }
  }

  // What marked steps make of constants and of each other's results.
  void FindKnown(const std::vector<Recipe::Step>& steps) {
    Marks is_known(values_.size(), 0);
    for (size_t s = 0; s < steps.size(); ++s) {
      const ProgramStep& step = program_.steps[s];
      bool known = step.once && step.runs && Replays(steps[s]);
      ForEachRead(step, [&](size_t value) { known = known && is_known[value] != 0; });
      if (!known) continue;
      found_.steps[s] = Runs::kOnce;
      for (const int output : step.outputs) {
        if (output >= 0) is_known[static_cast<size_t>(output)] = 1;
      }
    }
  }

  void Settle(size_t s) {
    const ProgramStep& step = program_.steps[s];
    Runs& runs = found_.steps[s];
    if (runs == Runs::kOnce) {
      const size_t bytes = BytesRead(step);
      if (kept_bytes_ + bytes <= KeptResults::kMost) {
        kept_bytes_ += bytes;
        for (const int output : step.outputs) {
          if (output >= 0) found_.is_kept[static_cast<size_t>(output)] = is_read_[static_cast<size_t>(output)];
        }
      } else {
        runs = Any(step.outputs, is_read_once_) ? Runs::kBoth : Runs::kAlways;
      }
    }
    ForEachRead(step, [&](size_t value) {
      if (runs != Runs::kOnce) is_read_[value] = 1;
      if (runs != Runs::kAlways) is_read_once_[value] = 1;
    });
  }

  // By steps of every call.
  size_t BytesRead(const ProgramStep& step) const {
    size_t bytes = 0;
    for (const int output : step.outputs) {
      if (output < 0 || is_read_[static_cast<size_t>(output)] == 0) continue;
      const auto value = static_cast<size_t>(output);
      bytes += AlignUp(StorageBytes(program_.values[value].type, values_[value].dims.elems()), kBufferAlignment);
    }
    return bytes;
  }

  const Program& program_;
  const std::vector<Recipe::Value>& values_;
  OnceSteps found_;
  Marks is_read_ = Marks(values_.size(), 0);       // by steps of every call
  Marks is_read_once_ = Marks(values_.size(), 0);  // by steps that run for what is kept
  size_t kept_bytes_ = 0;
};

}  // namespace

OnceSteps FindOnce(const Program& program, const std::vector<Recipe::Value>& values,
                   const std::vector<Recipe::Step>& steps) {
  return Finder(program, values).Find(steps);
}

}  // namespace cudaep::graph
