// The part of device/device.h that describes devices, over a list that the test makes: GPUs without any hardware.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "device/device.h"
#include "device/device_info.h"

namespace cudaep::device {

struct FakeGpus {
  std::vector<DeviceInfo> gpus;
  std::set<int> broken;  // GetDeviceInfo fails for these
  std::set<int> without_code;
  Status count_status;  // of GetDeviceCount
  std::string driver_problem;
};

FakeGpus& TheFakeGpus();

}  // namespace cudaep::device
