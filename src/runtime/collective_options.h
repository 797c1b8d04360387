// The rows of the options table that say which group of ranks a session belongs to. Private to the options table.
//
// Errors: kInvalidArgument for options that contradict each other, naming them and their values.
#pragma once

#include <span>

#include "runtime/options_table.h"

namespace cudaep {

std::span<const OptionRow> CollectiveOptions();

// What no single row can see.
Status CheckCollectiveOptions(const Settings& settings);

}  // namespace cudaep
