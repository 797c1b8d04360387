#include "device/device.h"

namespace cudaep::device {

DeviceGuard::DeviceGuard(int ordinal) {
  int current = 0;
  status_ = GetDevice(&current);
  if (!status_.ok() || current == ordinal) return;
  status_ = SetDevice(ordinal);
  if (status_.ok()) previous_ = current;
}

DeviceGuard::~DeviceGuard() {
  if (previous_ >= 0) SetDevice(previous_).IgnoreError();
}

}  // namespace cudaep::device
