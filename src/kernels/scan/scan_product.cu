#include "kernels/scan/scan.cuh"

namespace cudaep::kernels {

Status LaunchProductScan(const Scan& scan, const void* in, void* out, void* scratch, device::Stream stream) {
  return LaunchScanTypes<ProductScan>(scan, in, out, scratch, stream);
}

}  // namespace cudaep::kernels
