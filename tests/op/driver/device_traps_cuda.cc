#include "device_traps.h"

namespace cudaep::test {

OnlyStream::OnlyStream(device::Stream) {}
OnlyStream::~OnlyStream() = default;

void RecoverDevice() {}

}  // namespace cudaep::test
