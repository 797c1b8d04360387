#include "fake_gpus.h"

#include "device/architectures.h"

namespace cudaep::device {

FakeGpus& TheFakeGpus() {
  static FakeGpus gpus;
  return gpus;
}

Status GetDeviceCount(int* count) {
  *count = static_cast<int>(TheFakeGpus().gpus.size());
  return TheFakeGpus().count_status;
}

Result<const DeviceInfo*> GetDeviceInfo(int ordinal) {
  if (TheFakeGpus().broken.contains(ordinal)) return Status(StatusCode::kDeviceError, "the GPU has fallen off the bus");
  return static_cast<const DeviceInfo*>(&TheFakeGpus().gpus.at(static_cast<size_t>(ordinal)));
}

Status CheckCode(const DeviceInfo& info) {
  if (!TheFakeGpus().without_code.contains(info.ordinal)) return Status::Ok();
  return NotSupported("this build holds no code for ", info.name);
}

int DriverVersion() { return 13010; }
int RuntimeVersion() { return 13000; }
std::string DriverProblem() { return TheFakeGpus().driver_problem; }

}  // namespace cudaep::device
