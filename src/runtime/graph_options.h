// The rows of the options table about CUDA graphs through the host's hooks. Private to the options table.
//
// Errors: kInvalidArgument for options that contradict each other, naming them and their values.
#pragma once

#include <span>

#include "runtime/options_table.h"

namespace cudaep {

std::span<const OptionRow> GraphOptions();

// What no single row can see; `settings` are what all options of one source were parsed to.
Status CheckGraphOptions(const Settings& settings);

}  // namespace cudaep
