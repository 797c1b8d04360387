// A convolution problem as a graph of operations. Pure.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "lib/dnn.h"
#include "lib/op_graph.h"

namespace cudaep::dnn {

// The shapes that one convolution's graph may take. Libraries match graphs by their shape: which engines offer
// themselves depends on the order of additions, and on nodes that change nothing.
enum class ConvForm : uint8_t {
  kResidualBias,  // x * w + residual + bias, activation: what precompiled engines know
  kBiasResidual,  // x * w + bias + residual, activation
  kRedundant,     // the same and one node without effect: no precompiled engine knows it, so runtime engines take it
  kBiasOnly,      // x * w + bias; the rest remains
  kSumOnly,       // x * w; the rest remains
};
inline constexpr int kConvFormCount = 5;

// The forms of a problem that differ, in the order in which they are worth a try.
std::span<const ConvForm> FormsOf(const ConvProblem& problem);
Epilogue RemainingOf(const ConvProblem& problem, ConvForm form);

// The form that leaves an activation which no precompiled engine has to the caller: with it the library compiles at run
// time, some 100 ms a problem. Nothing where precompiled engines do the whole problem.
std::optional<ConvForm> UncompiledForm(const ConvProblem& problem);
// A choice for MakePlan: the library's first engine for a form.
std::string FormChoice(ConvForm form);

// The tensors of the caller's come first: x, w, then bias and residual where the form has them, then y. Constants of an
// activation follow.
OpGraph ConvolutionGraph(const ConvProblem& problem, ConvForm form);

}  // namespace cudaep::dnn
