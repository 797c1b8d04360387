#include "ops/elementwise/chain_program.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace cudaep::ops {
namespace {

using kernels::ChainCode;
using kernels::ChainProgram;
using kernels::ChainStep;
using kernels::kChainNumber;
using kernels::kNoChainSource;

// Terms are done depth first, so that few values wait in slots; what takes more of them goes first.
class Compiler {
 public:
  // `late`: results are stored when all are there.
  Compiler(const Chain& chain, bool fast, bool late) : chain_(chain), fast_(fast), late_(late) {
    const size_t values = static_cast<size_t>(chain.inputs) + chain.terms.size();
    uses_.resize(values);
    slot_.resize(values, -1);
    done_.resize(values);
    need_.resize(values);
    for (size_t t = 0; t < chain.terms.size(); ++t) {
      for (const int operand : Operands(chain.terms[t])) {
        if (operand >= 0) ++uses_[Index(operand)];
      }
    }
    for (const int result : chain.results) {
      if (late_) ++uses_[Index(result)];
    }
  }

  Result<ChainProgram> Run() {
    StateNeeds();
    for (size_t i = chain_.results.size(); i-- > 0;) Evaluate(chain_.results[i]);
    if (late_ && error_.ok()) StoreResults();
    if (!error_.ok()) return error_;
    return program_;
  }

 private:
  static size_t Index(int value) { return static_cast<size_t>(value); }
  static std::span<const int> Operands(const ChainTerm& term) {
    return {term.operands.data(), Index(term.function->operands)};
  }
  bool IsInput(int value) const { return value < chain_.inputs; }
  const ChainTerm& TermOf(int value) const { return chain_.terms[Index(value - chain_.inputs)]; }

  // Slots that a term's evaluation takes, about.
  void StateNeeds() {
    for (size_t t = 0; t < chain_.terms.size(); ++t) {
      std::array<int, kMaxChainOperands> needs = {};
      std::ranges::transform(Operands(chain_.terms[t]), needs.begin(),
                             [&](int operand) { return operand < 0 ? 0 : need_[Index(operand)]; });
      std::ranges::sort(needs, std::greater<>());
      int need = 1;
      for (int i = 0; i < kMaxChainOperands; ++i) need = std::max(need, needs[Index(i)] == 0 ? 0 : needs[Index(i)] + i);
      need_[Index(chain_.inputs) + t] = need;
    }
  }

  void Emit(const ChainStep& step) {
    if (ChangesNothing(step)) return;
    if (TakesOffZeroPoint(step)) return static_cast<void>(--program_.size);
    if (program_.size > joinable_ && JoinSteps(program_.steps[Index(program_.size - 1)], step)) return;
    if (program_.size + 1 >= kernels::kMaxChainSteps) {
      error_ = NotSupported("a chain of more than ", kernels::kMaxChainSteps - 1, " steps");
      return;
    }
    program_.steps[Index(program_.size++)] = step;
  }
  // Whether the step before adds the same to whole numbers.
  bool TakesOffZeroPoint(const ChainStep& step) const {
    if (program_.size <= std::max(joinable_, 1) || step.code() != ChainCode::kAffine || step.a != 1) return false;
    const ChainStep& added = program_.steps[Index(program_.size - 1)];
    return added.code() == ChainCode::kAffine && added.a == 1 && added.b == -step.b &&
           program_.steps[Index(program_.size - 2)].code() == ChainCode::kQuantize;
  }
  void EmitBarrier(const ChainStep& step) {
    Emit(step);
    joinable_ = program_.size;
  }

  int FreeSlot() {
    for (int slot = 0; slot < kernels::kMaxChainSlots; ++slot) {
      if (std::ranges::find(slot_, slot) != slot_.end()) continue;
      program_.slots = std::max(program_.slots, slot + 1);
      return slot;
    }
    // Inputs can be read again.
    for (int input = 0; input < chain_.inputs; ++input) {
      if (slot_[Index(input)] >= 0 && input != pinned_) return std::exchange(slot_[Index(input)], -1);
    }
    error_ = NotSupported("a chain of more than ", kernels::kMaxChainSlots, " values at once");
    return 0;
  }

  // Before the accumulator changes.
  void KeepIfNeeded() {
    if (accumulator_ < 0 || uses_[Index(accumulator_)] == 0 || slot_[Index(accumulator_)] >= 0) return;
    slot_[Index(accumulator_)] = FreeSlot();
    EmitBarrier({ChainCode::kKeep, kNoChainSource, static_cast<uint8_t>(slot_[Index(accumulator_)])});
  }

  uint8_t SourceOf(int value) const {
    const int slot = slot_[Index(value)];
    return static_cast<uint8_t>(slot >= 0 ? kernels::kChainSlot + slot : value);
  }

  void Load(int value) {
    KeepIfNeeded();
    EmitBarrier({ChainCode::kLoad, SourceOf(value), 0, 0, 1});
    accumulator_ = value;
  }
  void LoadNumber(float number) {
    KeepIfNeeded();
    EmitBarrier({ChainCode::kLoad, kChainNumber, 0, number, 1});
    accumulator_ = -1;
  }

  void Release(std::span<const int> operands) {
    for (const int operand : operands) {
      if (operand >= 0) --uses_[Index(operand)];
    }
    // What the step reads stays where it is until it has read it.
    for (const int operand : operands) {
      if (operand >= 0 && uses_[Index(operand)] == 0) freed_.push_back(operand);
    }
  }

  void Evaluate(int value) {
    if (done_[Index(value)] || IsInput(value) || !error_.ok()) return;
    const ChainTerm& term = TermOf(value);
    std::vector<int> open;
    for (const int operand : Operands(term)) {
      if (operand >= 0 && !IsInput(operand) && !done_[Index(operand)]) open.push_back(operand);
    }
    std::ranges::stable_sort(open, std::greater<>(), [&](int operand) { return need_[Index(operand)]; });
    for (const int operand : open) Evaluate(operand);
    if (!error_.ok()) return;
    switch (term.function->operands) {
      case 1:
        One(term);
        break;
      case 2:
        Two(term);
        break;
      default:
        Select(term);
    }
    for (const int operand : freed_) slot_[Index(operand)] = -1;
    freed_.clear();
    accumulator_ = value;
    done_[Index(value)] = 1;
    for (size_t i = 0; i < chain_.results.size(); ++i) {
      if (!late_ && chain_.results[i] == value) Store(i);
    }
  }

  void Store(size_t result) { EmitBarrier({ChainCode::kStore, kNoChainSource, static_cast<uint8_t>(result)}); }

  // The first one is in the accumulator.
  void StoreResults() {
    for (size_t i = 0; i < chain_.results.size(); ++i) {
      const int value = chain_.results[i];
      if (accumulator_ != value) Load(value);
      Store(i);
      --uses_[Index(value)];
    }
  }

  void One(const ChainTerm& term) {
    if (accumulator_ != term.operands[0]) Load(term.operands[0]);
    Release(Operands(term));
    KeepIfNeeded();
    const ChainCode code = fast_ ? term.function->fast : term.function->code;
    Emit({code, kNoChainSource, 0, term.numbers[0], term.numbers[1]});
  }

  void Two(const ChainTerm& term) {
    const int left = term.operands[0], right = term.operands[1];
    // The operand in the accumulator is x: the one that is there, or else a number never, or else the one that is
    // read again.
    bool swapped = left < 0 || (right >= 0 && accumulator_ == right && accumulator_ != left);
    if (left >= 0 && right >= 0 && accumulator_ != left && accumulator_ != right) {
      swapped = uses_[Index(right)] > uses_[Index(left)];
    }
    if (term.function->code == ChainCode::kLookUp) swapped = false;
    const int x = swapped ? right : left, y = swapped ? left : right;
    if (accumulator_ != x) Load(x);
    if (x == y && term.function->code != ChainCode::kMultiply && slot_[Index(x)] < 0 && !IsInput(x)) {
      KeepIfNeeded();  // its uses are not yet counted down
    }
    const bool is_square = x == y && term.function->code == ChainCode::kMultiply;
    Release(Operands(term));
    KeepIfNeeded();
    if (is_square) return Emit({ChainCode::kSquare, kNoChainSource, 0});
    if (y < 0) {
      const auto step = StepOfNumber(term.function->code, swapped, term.numbers[0]);
      if (step) return Emit(*step);
    }
    const ChainCode code = swapped ? term.function->swapped : term.function->code;
    EmitBarrier({code, y < 0 ? kChainNumber : SourceOf(y), 0, term.numbers[0]});
  }

  // x is what is chosen where the condition holds, z the other; where only z is no number, the other way around.
  void Select(const ChainTerm& term) {
    const int condition = term.operands[0];
    int x = term.operands[1], z = term.operands[2];
    const float number = x < 0 && z < 0 ? term.numbers[1] : term.numbers[0];
    const bool swapped = x < 0 && z >= 0;
    if (swapped) std::swap(x, z);
    pinned_ = z;
    if (z >= 0 && slot_[Index(z)] < 0) {
      if (accumulator_ != z) Load(z);
      KeepIfNeeded();
    }
    // A condition that was only just computed is read from a slot.
    if (!IsInput(condition) && slot_[Index(condition)] < 0) KeepIfNeeded();
    if (x < 0) {
      LoadNumber(term.numbers[0]);
    } else if (accumulator_ != x) {
      Load(x);
    }
    Release(Operands(term));
    KeepIfNeeded();
    pinned_ = -1;
    const uint8_t place = z < 0 ? kNoChainSource : static_cast<uint8_t>(slot_[Index(z)]);
    EmitBarrier({swapped ? ChainCode::kSelectElse : ChainCode::kSelect, SourceOf(condition), place, 0, number});
  }

  const Chain& chain_;
  const bool fast_, late_;
  ChainProgram program_;
  Status error_;
  std::vector<int> uses_, slot_, need_;
  std::vector<uint8_t> done_;
  std::vector<int> freed_;
  int accumulator_ = -1;  // the value in it; -1: none that is needed
  int pinned_ = -1;       // an input whose slot a step is about to read
  int joinable_ = 0;      // steps before this one stay as they are
};

// An output may lie in an input's memory.
bool ReadsAfterStore(const ChainProgram& program) {
  const std::span<const ChainStep> steps(program.steps.data(), static_cast<size_t>(program.size));
  const auto stored = std::ranges::find(steps, ChainCode::kStore, &ChainStep::code);
  return std::any_of(stored, steps.end(),
                     [](const ChainStep& step) { return step.source() < kernels::kMaxChainInputs; });
}

}  // namespace

Result<ChainProgram> CompileChain(const Chain& chain, bool fast) {
  // Values that are stored at once need not wait in slots.
  Result<ChainProgram> program = Compiler(chain, fast, false).Run();
  if (!program.ok() || !ReadsAfterStore(program.value())) return program;
  return Compiler(chain, fast, true).Run();
}

}  // namespace cudaep::ops
