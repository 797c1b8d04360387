// What was found of the vendor libraries, for `doctor` and bug reports.
//
// Looking loads libraries that were not loaded yet, which can take a second; not for hot paths.
// Threads: safe from any thread. Never fails: a missing library is an entry that says so.
#pragma once

#include <string>
#include <vector>

namespace cudaep::lib {

struct LibraryReport {
  std::string name;  // "cuDNN"
  bool found = false;
  std::string path;     // the loaded file; empty when missing or built in
  std::string version;  // "9.19.0"; empty when missing
  std::string status;   // where it was found, or why it was not and how to get it
};

std::vector<LibraryReport> ReportLibraries();

}  // namespace cudaep::lib
