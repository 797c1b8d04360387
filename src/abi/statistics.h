// What the provider knows of its memory, streams, graphs and plans, as text for people who watch a server.
//
// All of it is counted elsewhere anyway, on paths that no steady Run takes or by the one thread that a graph belongs
// to. Threads: any, at any time: before a registration, beside Runs, after the last session. It takes the locks of
// memory, sessions and plans for a moment, one after another, so figures of different parts may be of different
// moments.
#pragma once

#include <string>

namespace cudaep::abi {

// One JSON object; docs/guides/serving.md has its keys.
std::string StatisticsText();

}  // namespace cudaep::abi
