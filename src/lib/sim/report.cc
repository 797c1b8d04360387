#include "lib/report.h"

namespace cudaep::lib {

std::vector<LibraryReport> ReportLibraries() {
  const std::string status = "built in; the simulated device loads no vendor library";
  return {{"cuBLASLt", true, "", "simulated", status}, {"cuDNN", true, "", "simulated", status}};
}

}  // namespace cudaep::lib
