// The rows of the options table that say which streams a session's work runs on. Private to the options table.
//
// Errors: kInvalidArgument for options that contradict each other, naming them and their values.
#pragma once

#include <span>

#include "runtime/options_table.h"

namespace cudaep {

std::span<const OptionRow> StreamOptions();

// What no single row can see. `given` are the options of one source, `settings` what they were parsed to; a stream that
// has_user_compute_stream=0 takes back is taken back in them.
Status CheckStreamOptions(const OptionList& given, Settings& settings);

}  // namespace cudaep
