// What a chain computes, and its translation to steps of the kernel's machine.
//
// A chain is a list of terms: functions of inputs, of terms before, and of numbers. Compiled regions write it as
// attributes (graph/pass/chain_nodes.h), the operator `Elementwise` reads it.
#pragma once

#include <array>
#include <vector>

#include "core/status.h"
#include "ops/elementwise/chain_functions.h"

namespace cudaep::ops {

struct ChainTerm {
  const ChainFunction* function = nullptr;
  // Inputs are values 0, 1, ..., and terms follow them. kNumber: the next of `numbers` that none stands for yet.
  std::array<int, kMaxChainOperands> operands = {};
  std::array<float, kChainNumbers> numbers = {};

  static constexpr int kNumber = -1;

  // The input that is a table; -1: none.
  int table() const { return function->code == kernels::ChainCode::kLookUp ? operands[1] : -1; }
};

struct Chain {
  int inputs = 0;
  std::vector<ChainTerm> terms = {};
  std::vector<int> results = {};  // terms
};

// `fast`: with the functions that have small errors. No input is read after the first kStore. kNotSupported for a chain
// that has too many steps, or too many values at once.
Result<kernels::ChainProgram> CompileChain(const Chain& chain, bool fast);

}  // namespace cudaep::ops
