// A vendor library that knows its version and one function.
#include <cstddef>

extern "C" {

__attribute__((visibility("default"))) size_t fakeGetVersion() { return FAKE_VERSION; }
__attribute__((visibility("default"))) int fakeAnswer() { return 42; }

}  // extern "C"
