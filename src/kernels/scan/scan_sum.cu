#include "kernels/scan/scan.cuh"

namespace cudaep::kernels {

Status LaunchScan(const Scan& scan, const void* in, void* out, void* scratch, device::Stream stream) {
  if (scan.outer * scan.length * scan.inner == 0) return Status::Ok();
  return scan.op == ScanOp::kSum ? LaunchScanTypes<SumScan>(scan, in, out, scratch, stream)
                                 : LaunchProductScan(scan, in, out, scratch, stream);
}

}  // namespace cudaep::kernels
