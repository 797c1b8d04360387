// A stream's context, for tests of kernels that not every device has.
#pragma once

#include <optional>

#include "../lib/device_fixture.h"
#include "device/device_info.h"
#include "runtime/stream_context.h"

namespace cudaep::ops {

class ContextTest : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped()) return;
    context_.emplace(0, stream());
    if (const char* const lacks = Lacks(context_->device_info())) GTEST_SKIP() << lacks;
  }

  // What the tests need and there is not; null: nothing.
  virtual const char* Lacks(const device::DeviceInfo& device) const = 0;

  std::optional<StreamContext> context_;
};

}  // namespace cudaep::ops
