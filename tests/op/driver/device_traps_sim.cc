#include "device/sim/sim.h"
#include "device_traps.h"

namespace cudaep::test {

OnlyStream::OnlyStream(device::Stream stream) { device::sim::RestrictToStream(stream); }
OnlyStream::~OnlyStream() { device::sim::RestrictToStream(nullptr); }

void RecoverDevice() { device::sim::Reset().IgnoreError(); }

}  // namespace cudaep::test
