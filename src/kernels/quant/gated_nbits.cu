#include "kernels/quant/gated_nbits.h"

namespace cudaep::kernels {

bool FitsGatedNBits(const GatedNBits& /*product*/, const device::DeviceInfo& /*device*/) { return false; }

Status LaunchGatedNBits(const GatedNBits& /*product*/, const GatedNBitsPointers& /*at*/,
                        const device::DeviceInfo& /*device*/, device::Stream /*stream*/) {
  return InvalidArgument("no gated product of one launch: two products and their gate do it");
}

}  // namespace cudaep::kernels
