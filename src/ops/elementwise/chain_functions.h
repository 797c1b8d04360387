// The functions that chains have, and the steps that they are.
#pragma once

#include <optional>
#include <string_view>

#include "kernels/elementwise/chain.h"

namespace cudaep::ops {

inline constexpr int kMaxChainOperands = 3, kChainNumbers = 2;

// A function by its name: that of the ONNX operator it does, or one of
//   Affine (a x + b), Clamp (to [a, b]), Truth (x is not 0), Float16 and BFloat16 (rounded), GeluTanh,
//   Float32 (Affine as a cast that someone asked for), Quantize (x / a, rounded to a whole number from b to b + 255),
//   LookUp (the code at x - a of the table y, an input).
// Operators with attributes have them as numbers, in the order of their schemas. A condition comes first in Where.
struct ChainFunction {
  std::string_view name;
  int operands;  // 1 to kMaxChainOperands
  kernels::ChainCode code;
  kernels::ChainCode swapped;  // of two operands: with x and y in each other's place
  kernels::ChainCode fast;
  bool exact = false;  // of a small error in what comes before it makes a large one, or none was allowed
};

const ChainFunction* FindChainFunction(std::string_view name);  // null: there is none

// The step that a function of x and one number is; absent: it takes the number as its operand. `swapped`: the number
// comes first.
std::optional<kernels::ChainStep> StepOfNumber(kernels::ChainCode code, bool swapped, float number);

// Whether Quantize takes the scale: its quotients are right of those that neither they nor remainders leave fp32 with.
inline bool MayQuantizeBy(float scale) { return scale >= 0x1p-60f && scale <= 0x1p60f; }

bool ChangesNothing(const kernels::ChainStep& step);

// Makes two steps, of which the second follows the first, one: a product and a sum, a lower and an upper bound. False:
// they stay two.
bool JoinSteps(kernels::ChainStep& first, const kernels::ChainStep& second);

}  // namespace cudaep::ops
