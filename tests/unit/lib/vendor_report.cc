// Prints what lib/report.h says of each vendor library, one a line: name, "found" or "missing", path, status; separated
// by tabs. For tests/session/test_loading.py, which takes libraries away.
#include <cstdio>

#include "lib/report.h"

int main() {
  for (const cudaep::lib::LibraryReport& report : cudaep::lib::ReportLibraries()) {
    std::printf("%s\t%s\t%s\t%s\n", report.name.c_str(), report.found ? "found" : "missing", report.path.c_str(),
                report.status.c_str());
  }
}
