// The rows of the options table that decide where memory comes from. Private to the options table.
//
// Errors: kInvalidArgument for options that contradict each other, naming them and their values.
#pragma once

#include <span>

#include "runtime/options_table.h"

namespace cudaep {

std::span<const OptionRow> MemoryOptions();

// What no single row can see. `given` are the options of one source, `settings` what they were parsed to.
Status CheckMemoryOptions(const OptionList& given, const Settings& settings);

}  // namespace cudaep
