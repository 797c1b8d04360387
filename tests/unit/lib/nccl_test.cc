// lib/cuda's communicator over a library that stands for NCCL: what is called in which order, when a call stays in
// progress, an operation never ends, or NCCL finds an error.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include "device/sim/sim.h"
#include "fake_nccl.h"
#include "lib/comm.h"
#include "lib/library_path.h"

namespace cudaep::comm {
namespace {

using Calls = std::vector<std::string>;

class NcclTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(device::sim::Reset().ok());
    lib::SetLibraryPath(CUDAEP_TEST_NCCL_DIR);
    const auto version = Version();
    ASSERT_TRUE(version.ok()) << version.status().ToString();
    ASSERT_EQ(version.value(), "NCCL 2.28.9");
    void* const library = dlopen(CUDAEP_TEST_NCCL_DIR "/libnccl.so.2", RTLD_NOW | RTLD_NOLOAD);
    ASSERT_NE(library, nullptr);
    const auto start = reinterpret_cast<FakeNccl* (*)()>(dlsym(library, "fakeNccl"));
    ASSERT_NE(start, nullptr) << "another NCCL is in the process";
    fake_ = start();
    ASSERT_TRUE(device::StreamCreate(stream_.Receive()).ok());
  }
  void TearDown() override { lib::SetLibraryPath(""); }

  std::unique_ptr<Communicator> MustJoin(int timeout_s = 20) {
    auto joined = Join({}, 1, 2, std::chrono::seconds(timeout_s));
    EXPECT_TRUE(joined.ok()) << joined.status().ToString();
    return std::move(joined).value();
  }
  Status Reduce(Communicator& comm) {
    return comm.AllReduce(nullptr, nullptr, 1, DataType::kFloat, Reduction::kSum, stream_.get());
  }
  // Operations that end when NCCL is told to give them up, as a kernel that waits for another rank.
  void HoldOperations() {
    fake_->queued = [this](device::Stream stream) {
      device::sim::EnqueueSharedWork(stream, "kernel", [this] { return fake_->aborted.load(); }, {}, {}).IgnoreError();
    };
  }
  Calls calls() const {
    const std::lock_guard lock(fake_->mutex);
    return fake_->calls;
  }
  static bool Has(const Status& status, const std::string& part) {
    return status.message().find(part) != std::string::npos;
  }

  FakeNccl* fake_ = nullptr;
  device::UniqueStream stream_;
};

TEST_F(NcclTest, EachCallIsWaitedForUntilItIsNoLongerInProgress) {
  fake_->polls = 3;
  {
    const auto comm = MustJoin();
    EXPECT_TRUE(Reduce(*comm).ok());
    EXPECT_TRUE(comm->AllGather(nullptr, nullptr, 1, stream_.get()).ok());
    EXPECT_TRUE(comm->AllToAll(nullptr, nullptr, 1, stream_.get()).ok());
    EXPECT_TRUE(comm->Check().ok());
  }
  EXPECT_EQ(calls(), (Calls{"init", "reduce", "gather", "group", "send", "receive", "send", "receive", "end",
                            "finalize", "destroy"}));
}

TEST_F(NcclTest, JoiningIsGivenUpAtTheLimit) {
  fake_->polls = FakeNccl::kForEver;
  const Status late = Join({}, 1, 2, std::chrono::seconds(1)).status();
  EXPECT_TRUE(Has(late, "rank 1 of 2: ncclCommInitRankConfig has not ended after 1 s")) << late.ToString();
  EXPECT_EQ(calls(), (Calls{"init", "abort"}));
}

TEST_F(NcclTest, WhatIsRefusedAtOnceHasNcclsText) {
  fake_->refuses = "init";
  const Status refused = Join({}, 1, 2, std::chrono::seconds(20)).status();
  EXPECT_TRUE(Has(refused, "ncclCommInitRankConfig: an error of NCCL (5): what it was")) << refused.ToString();
  EXPECT_EQ(calls(), Calls{"init"});
}

TEST_F(NcclTest, AnOperationThatNeverEndsIsGivenUp) {
  HoldOperations();
  {
    const auto comm = MustJoin(1);
    EXPECT_TRUE(Reduce(*comm).ok());
    EXPECT_TRUE(device::StreamSynchronize(stream_.get()).ok());
    const Status late = comm->Check();
    EXPECT_TRUE(Has(late, "ncclAllReduce has not ended after 1 s (collective_timeout_s)")) << late.ToString();
    EXPECT_EQ(Reduce(*comm).message(), late.message());
  }
  EXPECT_EQ(calls(), (Calls{"init", "reduce", "abort"}));  // and nothing more at the end
}

TEST_F(NcclTest, AnErrorThatNcclFindsEndsTheOperation) {
  HoldOperations();
  const auto comm = MustJoin();
  EXPECT_TRUE(Reduce(*comm).ok());
  fake_->error = 6;  // ncclRemoteError
  EXPECT_TRUE(device::StreamSynchronize(stream_.get()).ok());
  EXPECT_TRUE(Has(comm->Check(), "another rank, or the way to it: an error of NCCL (6)")) << comm->Check().ToString();
}

TEST_F(NcclTest, AFailureInsideOfAGroupEndsTheGroup) {
  fake_->refuses = "receive";
  const auto comm = MustJoin();
  const Status refused = comm->AllToAll(nullptr, nullptr, 1, stream_.get());
  EXPECT_TRUE(Has(refused, "ncclSend and ncclRecv: an error of NCCL (5)")) << refused.ToString();
  EXPECT_EQ(calls(), (Calls{"init", "group", "send", "receive", "end", "abort"}));
}

// The session ends while its operation waits for others: the destructor stops watching first.
TEST_F(NcclTest, EndsWithAnOperationUnderWay) {
  HoldOperations();
  auto comm = MustJoin();
  EXPECT_TRUE(Reduce(*comm).ok());
  fake_->refuses = "finalize";
  comm.reset();
  EXPECT_EQ(calls(), (Calls{"init", "reduce", "finalize", "abort"}));
  EXPECT_TRUE(device::StreamSynchronize(stream_.get()).ok());
}

}  // namespace
}  // namespace cudaep::comm
