#include "lib/ranges.h"

namespace cudaep::lib {

bool RangesAreHeard() { return false; }
void BeginRange(const char*) {}
void EndRange() {}

}  // namespace cudaep::lib
