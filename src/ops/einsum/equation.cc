#include "ops/einsum/equation.h"

#include <algorithm>
#include <array>
#include <string>

#include "kernels/elementwise/broadcast.h"
#include "kernels/reduce/reduce.h"

namespace cudaep::ops {
namespace {

constexpr int kEllipsis = EinsumEquation::kEllipsis;
constexpr int kLetters = 52;

// 'A' to 'Z' come before 'a' to 'z', as their codes do; -1 for anything else.
int NumberOf(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  return -1;
}
char LetterOf(int number) { return static_cast<char>(number < 26 ? 'A' + number : 'a' + number - 26); }

bool Contains(const std::vector<int>& term, int label) {
  return std::find(term.begin(), term.end(), label) != term.end();
}

Result<std::vector<int>> ParseTerm(std::string_view text) {
  std::vector<int> term;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ' ') continue;
    if (text.substr(i, 3) == "...") {
      if (Contains(term, kEllipsis)) return InvalidArgument("'", text, "' has two ellipses");
      term.push_back(kEllipsis);
      i += 2;
      continue;
    }
    if (NumberOf(text[i]) < 0) return InvalidArgument("'", text[i], "' is no letter");
    term.push_back(NumberOf(text[i]));
  }
  return term;
}

std::vector<int> ImplicitOutput(const std::vector<std::vector<int>>& inputs) {
  int count[kLetters] = {};
  bool ellipsis = false;
  for (const auto& term : inputs) {
    for (const int label : term) label == kEllipsis ? void(ellipsis = true) : void(++count[label]);
  }
  std::vector<int> output;
  if (ellipsis) output.push_back(kEllipsis);
  for (int label = 0; label < kLetters; ++label) {
    if (count[label] == 1) output.push_back(label);
  }
  return output;
}

Status CheckOutput(const EinsumEquation& equation) {
  for (size_t i = 0; i < equation.output.size(); ++i) {
    const int label = equation.output[i];
    if (std::count(equation.output.begin(), equation.output.end(), label) > 1) {
      return InvalidArgument("the output has a label twice");
    }
    const bool known = std::any_of(equation.inputs.begin(), equation.inputs.end(),
                                   [&](const auto& term) { return Contains(term, label); });
    if (known) continue;
    if (label == kEllipsis) return InvalidArgument("the output has an ellipsis, no input has one");
    return InvalidArgument("the output has label '", LetterOf(label), "', no input has it");
  }
  return Status::Ok();
}

// Dimensions that a term's ellipsis stands for; 0 without one.
Result<int> EllipsisRank(const std::vector<int>& term, Dims dims, size_t input) {
  const bool ellipsis = Contains(term, kEllipsis);
  const int rank = static_cast<int>(dims.size()), named = static_cast<int>(term.size()) - (ellipsis ? 1 : 0);
  if (rank < named || (rank != named && !ellipsis)) {
    return InvalidArgument("input ", input, " of shape ", dims, " has ", rank, " dimensions, its term has ", named,
                           " labels");
  }
  return rank - named;
}

// Label of ellipsis dimension i of `rank`, such that last dimensions agree.
int EllipsisLabel(int i, int rank) { return kLetters + rank - 1 - i; }

std::vector<int> Spread(const std::vector<int>& term, int ellipsis_rank) {
  std::vector<int> labels;
  for (const int label : term) {
    if (label != kEllipsis) labels.push_back(label);
    for (int i = 0; label == kEllipsis && i < ellipsis_rank; ++i) labels.push_back(EllipsisLabel(i, ellipsis_rank));
  }
  return labels;
}

}  // namespace

Result<EinsumEquation> ParseEquation(std::string_view text) {
  EinsumEquation equation;
  const size_t arrow = text.find("->");
  std::string_view left = text.substr(0, arrow);
  for (size_t end = 0; end != std::string_view::npos;) {
    end = left.find(',');
    CUDAEP_ASSIGN_OR_RETURN(std::vector<int> term, ParseTerm(left.substr(0, end)));
    equation.inputs.push_back(std::move(term));
    if (end != std::string_view::npos) left.remove_prefix(end + 1);
  }
  if (arrow == std::string_view::npos) {
    equation.output = ImplicitOutput(equation.inputs);
    return equation;
  }
  CUDAEP_ASSIGN_OR_RETURN(equation.output, ParseTerm(text.substr(arrow + 2)));
  CUDAEP_RETURN_IF_ERROR(CheckOutput(equation));
  return equation;
}

// How many dimensions labels become where neighbours of the same kind are one. Of an ellipsis nobody knows whether it
// has any.
template <class Kind>
std::array<int, 4> CountRuns(const std::vector<int>& labels, Kind kind) {
  std::array<int, 4> runs{};
  int last = -1;
  for (size_t i = 0; i < labels.size(); ++i) {
    const bool again = std::find(labels.begin(), labels.begin() + static_cast<std::ptrdiff_t>(i), labels[i]) !=
                       labels.begin() + static_cast<std::ptrdiff_t>(i);
    if (labels[i] == kEllipsis || again) continue;
    const int now = kind(labels[i]);
    if (now != last) ++runs[static_cast<size_t>(now)];
    last = now;
  }
  return runs;
}

Status CheckRanks(const EinsumEquation& equation) {
  const auto& inputs = equation.inputs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto is_kept = [&](int label) {
      bool kept = Contains(equation.output, label);
      for (size_t j = 0; j < inputs.size(); ++j) kept |= j != i && Contains(inputs[j], label);
      return kept;
    };
    const auto [summed, kept, _, none] = CountRuns(inputs[i], [&](int label) { return is_kept(label) ? 1 : 0; });
    if (summed > 0 && std::max(summed, kept) > kernels::kMaxReduceRank) {
      return NotSupported("input ", i, " is summed over more than ", kernels::kMaxReduceRank, " dimensions apart");
    }
  }
  if (inputs.size() != 2) return Status::Ok();
  const bool contracts = std::any_of(inputs[0].begin(), inputs[0].end(), [&](int label) {
    return label != kEllipsis && Contains(inputs[1], label) && !Contains(equation.output, label);
  });
  const std::array<int, 4> runs = CountRuns(equation.output, [&](int label) {
    return (Contains(inputs[0], label) ? 1 : 0) + (Contains(inputs[1], label) ? 2 : 0);
  });
  const int all = runs[1] + runs[2] + runs[3];
  if (!contracts && all > kernels::kMaxBroadcastRank) {
    return NotSupported("a product of ", all, " dimensions; ", kernels::kMaxBroadcastRank, " are offered");
  }
  return Status::Ok();
}

Shape EinsumLabels::OutputShape() const {
  Shape shape(static_cast<int>(output.size()), 0);
  for (size_t i = 0; i < output.size(); ++i) shape[static_cast<int>(i)] = size[static_cast<size_t>(output[i])];
  return shape;
}

Result<EinsumLabels> ResolveEquation(const EinsumEquation& equation, TensorViews inputs) {
  EinsumLabels out;
  int widest = 0;
  for (size_t i = 0; i < equation.inputs.size(); ++i) {
    CUDAEP_ASSIGN_OR_RETURN(const int rank, EllipsisRank(equation.inputs[i], inputs[i].dims(), i));
    widest = std::max(widest, rank);
    out.inputs.push_back(Spread(equation.inputs[i], rank));
  }
  if (widest > 0 && !Contains(equation.output, kEllipsis)) {
    return InvalidArgument("an input's ellipsis stands for dimensions, but the output has no ellipsis");
  }
  out.output = Spread(equation.output, widest);
  out.size.assign(static_cast<size_t>(kLetters) + static_cast<size_t>(widest), 0);
  std::vector<bool> seen(out.size.size());
  for (size_t i = 0; i < out.inputs.size(); ++i) {
    for (size_t d = 0; d < out.inputs[i].size(); ++d) {
      const auto label = static_cast<size_t>(out.inputs[i][d]);
      const int64_t dim = inputs[i].dim[d];
      const auto first =
          std::find(out.inputs[i].begin(), out.inputs[i].end(), out.inputs[i][d]) - out.inputs[i].begin();
      const bool fits =
          inputs[i].dim[first] == dim && (!seen[label] || out.size[label] == 1 || dim == 1 || dim == out.size[label]);
      if (!fits) {
        return InvalidArgument("dimension ", d, " of input ", i, " of shape ", inputs[i].dims(), " is ", dim,
                               ", its label has size ", seen[label] ? out.size[label] : inputs[i].dim[first]);
      }
      if (!seen[label] || out.size[label] == 1) out.size[label] = dim;
      seen[label] = true;
    }
  }
  return out;
}

}  // namespace cudaep::ops
