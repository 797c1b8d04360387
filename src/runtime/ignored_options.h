// Options that applications of upstream's provider pass and that change nothing here: rows of the options table.
//
// They are accepted, so that such an application gets its session, and the log says once a process that they do
// nothing.
#pragma once

#include <span>

#include "runtime/options_table.h"

namespace cudaep {

std::span<const OptionRow> IgnoredOptions();

// Warns of those among the options of a session that nobody in the process has been warned of yet.
// Threads: may be called from any.
void WarnOfIgnoredOptions(const OptionList& options);

}  // namespace cudaep
