// What functions of chains come to, on the host.
#pragma once

#include <optional>
#include <span>

#include "ops/elementwise/chain_functions.h"

namespace cudaep::ops {

// Of float operands and the numbers that are none, in fp32 or better; nothing for a function that is not done here.
std::optional<float> ChainValue(const ChainFunction& function, std::span<const float> operands,
                                std::span<const float> numbers);

}  // namespace cudaep::ops
