// Which devices the host is shown, for every way in which its own list and CUDA's can differ.
#include "abi/devices.h"

#include <gtest/gtest.h>

#include "core/log.h"
#include "core/strings.h"
#include "fake_gpus.h"
#include "fake_host.h"

namespace cudaep::abi {
namespace {

device::DeviceInfo Gpu(int ordinal, const char* pci_bus_id) {
  device::DeviceInfo info;
  info.ordinal = ordinal;
  info.name = "NVIDIA H200";
  info.pci_bus_id = pci_bus_id;
  info.uuid = StrCat("GPU-", ordinal);
  info.pci_device_id = 0x2335;
  info.major = 9;
  return info;
}

OrtHardwareDevice Hardware(const char* pci_bus_id) {
  OrtHardwareDevice hardware;
  hardware.metadata.entries = {{"card_idx", "0"}};
  if (pci_bus_id != nullptr) hardware.metadata.entries["pci_bus_id"] = pci_bus_id;
  return hardware;
}

class Devices : public ::testing::Test {
 protected:
  void SetUp() override {
    device::TheFakeGpus() = {};
    FakeHost::ClearLog();
    Lines().clear();
    live_before_ = FakeHost::live_objects();
    Start({});
  }
  void TearDown() override {
    for (OrtEpDevice* device : shown_) Host().ep->ReleaseEpDevice(device);
    list_.reset();
    EXPECT_EQ(FakeHost::live_objects(), live_before_);
  }

  void Start(FakeHostConfig config) {
    host_ = std::make_unique<FakeHost>(std::move(config));
    bool found = false;
    ASSERT_EQ(NegotiateHost(host_->base(), false, &found), nullptr);
    ASSERT_TRUE(found);
  }

  Status Describe(size_t room = 8) {
    std::vector<const OrtHardwareDevice*> pointers;
    for (const OrtHardwareDevice& hardware : hardware_) pointers.push_back(&hardware);
    OrtEpDevice* devices[16] = {};
    size_t count = 99;
    const Status status = list_->Describe(nullptr, pointers.data(), pointers.size(), devices, room, &count);
    shown_.assign(devices, devices + count);
    return status;
  }

  // "ordinal@pci_bus_id" of each device shown, with "!" where the host had no hardware device of its own for it.
  std::string Shown() const {
    std::string text;
    for (const OrtEpDevice* device : shown_) {
      bool is_hosts = false;
      for (const OrtHardwareDevice& hardware : hardware_) is_hosts |= device->hardware == &hardware;
      if (!text.empty()) text += ' ';
      text += StrCat(device->metadata.at("cuda_ordinal"), "@", device->hardware->metadata.entries.at("pci_bus_id"),
                     is_hosts ? "" : "!");
    }
    return text;
  }

  static std::vector<std::string>& Lines() {
    static std::vector<std::string> lines;
    return lines;
  }
  static bool Logged(std::string_view level_and_start) {
    for (const std::string& line : Lines()) {
      if (std::string_view(line).starts_with(level_and_start)) return true;
    }
    return false;
  }

  const LogSink sink_{
      [](void*, LogLevel level, std::string_view text) { Lines().push_back(StrCat(int(level), " ", text)); }, nullptr};

  std::vector<device::DeviceInfo>& gpus() { return device::TheFakeGpus().gpus; }

  std::unique_ptr<FakeHost> host_;
  std::unique_ptr<DeviceList> list_ = std::make_unique<DeviceList>();
  std::vector<OrtHardwareDevice> hardware_;
  std::vector<OrtEpDevice*> shown_;

 private:
  int live_before_ = 0;
};

TEST_F(Devices, HostThatFoundAllIsFollowed) {
  gpus() = {Gpu(0, "00000000:18:00.0"), Gpu(1, "00000000:2A:00.0")};
  hardware_ = {Hardware("0000:18:00.0"), Hardware("0000:2a:00.0")};
  ASSERT_TRUE(Describe().ok());
  EXPECT_EQ(Shown(), "0@0000:18:00.0 1@0000:2a:00.0");
}

TEST_F(Devices, HostThatFoundNoneGetsEveryGpuFromUs) {
  gpus() = {Gpu(0, "00000000:18:00.0"), Gpu(1, "00000000:2A:00.0")};
  ASSERT_TRUE(Describe().ok());
  EXPECT_EQ(Shown(), "0@00000000:18:00.0! 1@00000000:2A:00.0!");
  EXPECT_EQ(shown_[0]->hardware->type, OrtHardwareDeviceType_GPU);
  EXPECT_EQ(shown_[0]->hardware->vendor_id, kNvidiaVendorId);
  EXPECT_EQ(shown_[0]->hardware->device_id, 0x2335u);
}

TEST_F(Devices, HostThatFoundSomeGetsTheRestFromUs) {
  gpus() = {Gpu(0, "00000000:18:00.0"), Gpu(1, "00000000:2A:00.0"), Gpu(2, "00000000:3A:00.0")};
  hardware_ = {Hardware("0000:2a:00.0")};
  ASSERT_TRUE(Describe().ok());
  EXPECT_EQ(Shown(), "0@00000000:18:00.0! 1@0000:2a:00.0 2@00000000:3A:00.0!");
}

// CUDA sorts by speed or by CUDA_VISIBLE_DEVICES, the host by its own discovery.
TEST_F(Devices, OrdersMayDiffer) {
  gpus() = {Gpu(0, "00000000:3A:00.0"), Gpu(1, "00000000:18:00.0"), Gpu(2, "00000000:2A:00.0")};
  hardware_ = {Hardware("0000:18:00.0"), Hardware("0000:2a:00.0"), Hardware("0000:3a:00.0")};
  ASSERT_TRUE(Describe().ok());
  EXPECT_EQ(Shown(), "0@0000:3a:00.0 1@0000:18:00.0 2@0000:2a:00.0");
}

TEST_F(Devices, GpusHiddenFromCudaAreNotShown) {
  gpus() = {Gpu(0, "00000000:2A:00.0")};
  hardware_ = {Hardware("0000:18:00.0"), Hardware("0000:2a:00.0"), Hardware("0000:3a:00.0")};
  ASSERT_TRUE(Describe().ok());
  EXPECT_EQ(Shown(), "0@0000:2a:00.0");
}

TEST_F(Devices, WhatIsNotAnNvidiaGpuWithABusIdIsNoMatch) {
  gpus() = {Gpu(0, "00000000:18:00.0")};
  OrtHardwareDevice cpu = Hardware("0000:18:00.0"), other_vendor = cpu;
  cpu.type = OrtHardwareDeviceType_CPU;
  other_vendor.vendor_id = 0x1002;
  hardware_ = {cpu, other_vendor, Hardware(nullptr), Hardware(""), Hardware("18"), Hardware("0000:18:00.1")};
  ASSERT_TRUE(Describe().ok());
  EXPECT_EQ(Shown(), "0@00000000:18:00.0!");
}

TEST_F(Devices, BusIdsAreComparedWithTheirDomain) {
  gpus() = {Gpu(0, "00010000:18:00.0"), Gpu(1, "0000000A:18:00.0"), Gpu(2, "00000000:18:00.0")};
  hardware_ = {Hardware("0000:18:00.0"), Hardware("000a:18:00.0"), Hardware("10000:18:00.0")};
  ASSERT_TRUE(Describe().ok());
  EXPECT_EQ(Shown(), "0@10000:18:00.0 1@000a:18:00.0 2@0000:18:00.0");
}

// Instances of one partitioned GPU (MIG) have its bus id and a UUID of their own.
TEST_F(Devices, PartsOfOneGpuAreDevicesOfTheirOwn) {
  gpus() = {Gpu(0, "00000000:18:00.0"), Gpu(1, "00000000:18:00.0")};
  gpus()[1].name = "NVIDIA H200 MIG 1g.18gb";
  gpus()[1].total_bytes = size_t{18} << 30;
  hardware_ = {Hardware("0000:18:00.0")};
  ASSERT_TRUE(Describe().ok());
  EXPECT_EQ(Shown(), "0@0000:18:00.0 1@0000:18:00.0");
  EXPECT_NE(shown_[0]->metadata.at("uuid"), shown_[1]->metadata.at("uuid"));
  EXPECT_EQ(shown_[1]->metadata.at("name"), "NVIDIA H200 MIG 1g.18gb");
  EXPECT_EQ(shown_[1]->metadata.at("memory_bytes"), "19327352832");
}

TEST_F(Devices, SimulatedDeviceNeverTakesAGpusPlace) {
  gpus() = {Gpu(0, "00000000:18:00.0")};
  gpus()[0].simulated = true;
  hardware_ = {Hardware("0000:18:00.0")};
  ASSERT_TRUE(Describe().ok());
  EXPECT_EQ(Shown(), "0@00000000:18:00.0!");
  EXPECT_EQ(shown_[0]->metadata.at("simulated"), "1");
}

TEST_F(Devices, EachDeviceHasItsMemoriesUnderItsOrdinal) {
  gpus() = {Gpu(0, "00000000:18:00.0"), Gpu(1, "00000000:2A:00.0")};
  ASSERT_TRUE(Describe().ok());
  ASSERT_EQ(shown_.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    ASSERT_EQ(shown_[i]->memory.size(), 3u);
    for (const OrtMemoryInfo* info : shown_[i]->memory) EXPECT_EQ(info->device_id, static_cast<int32_t>(i));
    OrtKeyValuePairs metadata{shown_[i]->metadata, {}, {}};
    EXPECT_EQ(DeviceList::OrdinalOf(&metadata).value(), static_cast<int>(i));
  }
  EXPECT_EQ(DeviceList::OrdinalOf(nullptr).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(Devices, NoGpuIsNoError) {
  hardware_ = {Hardware("0000:18:00.0")};
  ASSERT_TRUE(Describe().ok());
  EXPECT_EQ(Shown(), "");
  EXPECT_TRUE(Logged("1 no GPU is visible to CUDA"));
}

TEST_F(Devices, DriverThatCannotBeUsedIsAWarning) {
  device::TheFakeGpus().driver_problem = "the driver is too old";
  ASSERT_TRUE(Describe().ok());
  EXPECT_EQ(Shown(), "");
  EXPECT_TRUE(Logged("2 no GPU can be used: the driver is too old"));
}

TEST_F(Devices, DriverThatFailsIsAnError) {
  device::TheFakeGpus().count_status = Status(StatusCode::kDeviceError, "cudaErrorSystemDriverMismatch");
  EXPECT_EQ(Describe().message(), "cudaErrorSystemDriverMismatch");
  EXPECT_EQ(Shown(), "");
}

TEST_F(Devices, BrokenGpuDoesNotHideTheOthers) {
  gpus() = {Gpu(0, "00000000:18:00.0"), Gpu(1, "00000000:2A:00.0"), Gpu(2, "00000000:3A:00.0")};
  device::TheFakeGpus().broken = {1};
  ASSERT_TRUE(Describe().ok());
  EXPECT_EQ(Shown(), "0@00000000:18:00.0! 2@00000000:3A:00.0!");
  EXPECT_TRUE(Logged("2 CUDA ordinal 1 is left out"));
}

TEST_F(Devices, GpuWithoutCodeInTheBuildIsLeftOutByName) {
  gpus() = {Gpu(0, "00000000:18:00.0"), Gpu(1, "00000000:2A:00.0"), Gpu(2, "00000000:3A:00.0")};
  device::TheFakeGpus().without_code = {0, 2};
  ASSERT_TRUE(Describe().ok());
  EXPECT_EQ(Shown(), "1@00000000:2A:00.0!");
  EXPECT_TRUE(Logged("2 CUDA ordinal 0 is left out: this build holds no code for NVIDIA H200"));
  EXPECT_TRUE(Logged("2 CUDA ordinal 2 is left out: this build holds no code for NVIDIA H200"));
}

TEST_F(Devices, MoreGpusThanTheHostTakesAreNamed) {
  for (int ordinal = 0; ordinal < 10; ++ordinal) gpus().push_back(Gpu(ordinal, "00000000:18:00.0"));
  ASSERT_TRUE(Describe(8).ok());
  EXPECT_EQ(shown_.size(), 8u);
  EXPECT_TRUE(Logged("2 the host takes 8 devices and CUDA shows 10: ordinals from 8 on are left out"));
  EXPECT_EQ(Lines().size(), 1u);
}

TEST_F(Devices, ErrorOfTheHostLeavesNothingBehind) {
  Start({.fail_after_devices = 2});
  for (int ordinal = 0; ordinal < 3; ++ordinal) gpus().push_back(Gpu(ordinal, "00000000:18:00.0"));
  const Status status = Describe();
  EXPECT_NE(status.message().find("no more devices"), std::string_view::npos);
  EXPECT_TRUE(shown_.empty());
}

}  // namespace
}  // namespace cudaep::abi
