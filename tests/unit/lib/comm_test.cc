// Collectives of the simulated device: ranks are threads with a device each.
#include "lib/comm.h"

#include <cmath>
#include <latch>

#include "core/data_type_traits.h"
#include "device_fixture.h"
#include "rank_threads.h"

namespace cudaep::comm {
namespace {

using device::sim::Mode;
using Bytes = std::vector<uint8_t>;

constexpr int kRanks = 3;

// Small integers, which all types hold, and their products too.
double ValueOf(int rank, int64_t index) { return static_cast<double>((index * 5 + rank * 3) % 4 + 1); }

template <class T>
T Make(double value) {
  if constexpr (std::is_same_v<T, Half>)
    return HalfFromFloat(static_cast<float>(value));
  else if constexpr (std::is_same_v<T, BFloat16>)
    return BFloat16FromFloat(static_cast<float>(value));
  else
    return static_cast<T>(value);
}

Bytes Encode(DataType type, int64_t elems, const std::function<double(int64_t)>& value) {
  Bytes bytes(SizeOf(type) * static_cast<size_t>(elems));
  VisitType<kReducedTypes>(type, false, [&]<class T>() {
    for (int64_t i = 0; i < elems; ++i) {
      const T element = Make<T>(value(i));
      std::memcpy(bytes.data() + sizeof(T) * static_cast<size_t>(i), &element, sizeof(T));
    }
    return true;
  });
  return bytes;
}

double Reduced(Reduction reduction, int64_t index) {
  double value = ValueOf(0, index);
  for (int rank = 1; rank < kRanks; ++rank) {
    const double next = ValueOf(rank, index);
    if (reduction == Reduction::kProduct)
      value *= next;
    else if (reduction == Reduction::kMin)
      value = std::min(value, next);
    else if (reduction == Reduction::kMax)
      value = std::max(value, next);
    else
      value += next;
  }
  return reduction == Reduction::kMean ? value / kRanks : value;
}

class CommTest : public testing::TestWithParam<Mode> {
 protected:
  void SetUp() override { UseDevices(kRanks, GetParam()); }
  void TearDown() override { UseDevices(1, Mode::kLate); }
};

TEST_P(CommTest, EveryTypeAndReduction) {
  OnRanks(kRanks, [](Rank& rank) {
    for (int t = 0; t < kDataTypeCount; ++t) {
      const auto type = static_cast<DataType>(t);
      if (!kReducedTypes.Contains(type)) continue;
      for (int r = 0; r < 5; ++r) {
        const auto reduction = static_cast<Reduction>(r);
        if (reduction == Reduction::kMean && !kFloatTypes.Contains(type)) continue;
        const int64_t part = 7, all = part * kRanks;
        const auto own = [&](int64_t i) { return ValueOf(rank.comm->rank(), i); };
        const DeviceBytes in(Encode(type, all, own)), out(Bytes(SizeOf(type) * all)),
            scattered(Bytes(SizeOf(type) * part));
        CUDAEP_ASSERT_OK(rank.comm->AllReduce(in.get(), out.get(), all, type, reduction, rank.stream.get()));
        CUDAEP_ASSERT_OK(rank.comm->ReduceScatter(in.get(), scattered.get(), part, type, reduction, rank.stream.get()));
        const auto reduced = [&](int64_t i) { return Reduced(reduction, i); };
        const auto of_part = [&](int64_t i) { return Reduced(reduction, i + part * rank.comm->rank()); };
        EXPECT_EQ(out.Read(rank.stream.get()), Encode(type, all, reduced)) << DataTypeName(type) << ' ' << r;
        EXPECT_EQ(scattered.Read(rank.stream.get()), Encode(type, part, of_part)) << DataTypeName(type) << ' ' << r;
      }
    }
    EXPECT_TRUE(rank.comm->Check().ok()) << rank.comm->Check().ToString();
  });
}

TEST_P(CommTest, SignedExtremesAndIntegersThatWrapAround) {
  OnRanks(kRanks, [](Rank& rank) {
    const int8_t own[] = {static_cast<int8_t>(rank.comm->rank() - 1), 100};  // -1, 0, 1
    Bytes bytes(2);
    std::memcpy(bytes.data(), own, 2);
    const auto reduce = [&](Reduction reduction) {
      const DeviceBytes memory(bytes);
      EXPECT_TRUE(
          rank.comm->AllReduce(memory.get(), memory.get(), 2, DataType::kInt8, reduction, rank.stream.get()).ok());
      const Bytes out = memory.Read(rank.stream.get());
      return std::pair(static_cast<int8_t>(out[0]), static_cast<int8_t>(out[1]));
    };
    EXPECT_EQ(reduce(Reduction::kMin), std::pair(int8_t{-1}, int8_t{100}));
    EXPECT_EQ(reduce(Reduction::kMax), std::pair(int8_t{1}, int8_t{100}));
    EXPECT_EQ(reduce(Reduction::kSum), std::pair(int8_t{0}, static_cast<int8_t>(300 - 256)));
  });
}

TEST_P(CommTest, GatherAndExchangeOfManySizes) {
  OnRanks(kRanks, [](Rank& rank) {
    const int own = rank.comm->rank();
    for (const size_t part : {1, 5, 4096, 100000, 3}) {
      Bytes mine(part * kRanks), gathered, exchanged;
      const auto byte = [&](int of, size_t i) { return static_cast<uint8_t>(of * 91 + i * 7); };
      for (size_t i = 0; i < mine.size(); ++i) mine[i] = byte(own, i);
      for (int other = 0; other < kRanks; ++other) {
        for (size_t i = 0; i < part; ++i) {
          gathered.push_back(byte(other, i));
          exchanged.push_back(byte(other, part * static_cast<size_t>(own) + i));
        }
      }
      const DeviceBytes in(mine), all(Bytes(part * kRanks)), back(Bytes(part * kRanks));
      CUDAEP_ASSERT_OK(rank.comm->AllGather(in.get(), all.get(), part, rank.stream.get()));
      CUDAEP_ASSERT_OK(rank.comm->AllToAll(in.get(), back.get(), part, rank.stream.get()));
      EXPECT_EQ(all.Read(rank.stream.get()), gathered);
      EXPECT_EQ(back.Read(rank.stream.get()), exchanged);
    }
  });
}

// Queued work of others is needed though nobody waits for it there, and one thread may queue for all.
TEST_P(CommTest, OneThreadQueuesForAllRanks) {
  Result<UniqueId> id = MakeUniqueId();
  std::vector<Rank> ranks(kRanks);
  std::vector<std::thread> joining;
  for (int r = 0; r < kRanks; ++r)
    joining.emplace_back([&, r] { ranks[static_cast<size_t>(r)] = JoinAs(*id, r, kRanks, 20); });
  for (std::thread& thread : joining) thread.join();
  std::vector<DeviceBytes> memory;
  for (int round = 0; round < 20; ++round) {
    for (int r = 0; r < kRanks; ++r) {
      ASSERT_TRUE(device::SetDevice(r).ok());
      if (round == 0) memory.emplace_back(Encode(DataType::kInt32, 1, [&](int64_t) { return r + 1; }));
      const Rank& rank = ranks[static_cast<size_t>(r)];
      void* const own = memory[static_cast<size_t>(r)].get();
      CUDAEP_ASSERT_OK(rank.comm->AllReduce(own, own, 1, DataType::kInt32, Reduction::kMax, rank.stream.get()));
    }
  }
  for (int r = 0; r < kRanks; ++r) {
    ASSERT_TRUE(device::SetDevice(r).ok());
    EXPECT_EQ(memory[static_cast<size_t>(r)].Read(ranks[static_cast<size_t>(r)].stream.get()),
              Encode(DataType::kInt32, 1, [](int64_t) { return kRanks; }));
  }
}

// A communicator may be used on several streams; operations keep the order they were queued in.
TEST_P(CommTest, SeveralStreamsOfOneRank) {
  OnRanks(kRanks, [](Rank& rank) {
    device::UniqueStream other;
    ASSERT_TRUE(device::StreamCreate(other.Receive()).ok());
    const Bytes one = Encode(DataType::kFloat, 1, [](int64_t) { return 1; });
    const DeviceBytes a(one), b(one);
    for (int i = 0; i < 3; ++i) {
      CUDAEP_ASSERT_OK(rank.comm->AllReduce(a.get(), a.get(), 1, DataType::kFloat, Reduction::kSum, rank.stream.get()));
      CUDAEP_ASSERT_OK(rank.comm->AllReduce(b.get(), b.get(), 1, DataType::kFloat, Reduction::kSum, other.get()));
    }
    const Bytes sum = Encode(DataType::kFloat, 1, [](int64_t) { return std::pow(kRanks, 3); });
    EXPECT_EQ(b.Read(other.get()), sum);
    EXPECT_EQ(a.Read(rank.stream.get()), sum);
  });
}

TEST_P(CommTest, WhatDiffersAmongRanksIsNamed) {
  OnRanks(kRanks, [](Rank& rank) {
    const DeviceBytes memory(Bytes(64));
    const int64_t elems = rank.comm->rank() == 1 ? 8 : 16;
    CUDAEP_ASSERT_OK(
        rank.comm->AllReduce(memory.get(), memory.get(), elems, DataType::kFloat, Reduction::kSum, rank.stream.get()));
    EXPECT_TRUE(device::StreamSynchronize(rank.stream.get()).ok());  // the device stays usable
    const std::string text(rank.comm->Check().message());
    EXPECT_NE(text.find("AllReduce (sum) of 8 float"), std::string::npos) << text;
    EXPECT_NE(text.find("AllReduce (sum) of 16 float"), std::string::npos) << text;
    const Status later = rank.comm->AllGather(memory.get(), memory.get(), 1, rank.stream.get());
    EXPECT_EQ(later.message(), text);
  });
}

TEST_P(CommTest, ARankThatDoesNotComeIsNamed) {
  std::latch others(kRanks - 1);
  OnRanks(
      kRanks,
      [&](Rank& rank) {
        if (rank.comm->rank() == 2) return others.wait();
        const DeviceBytes memory(Bytes(4));
        CUDAEP_ASSERT_OK(rank.comm->AllGather(memory.get(), memory.get(), 1, rank.stream.get()));
        EXPECT_TRUE(device::StreamSynchronize(rank.stream.get()).ok());
        const std::string text(rank.comm->Check().message());
        EXPECT_NE(text.find("after 1 s (collective_timeout_s) rank 2 has not come"), std::string::npos) << text;
        others.count_down();
      },
      1);
}

TEST_P(CommTest, ARankThatEndsIsNamedAtOnce) {
  OnRanks(kRanks, [](Rank& rank) {
    if (rank.comm->rank() == 0) return;
    const DeviceBytes memory(Bytes(4));
    CUDAEP_ASSERT_OK(rank.comm->AllGather(memory.get(), memory.get(), 1, rank.stream.get()));
    EXPECT_TRUE(device::StreamSynchronize(rank.stream.get()).ok());
    const std::string text(rank.comm->Check().message());
    EXPECT_NE(text.find("rank 0 has ended"), std::string::npos) << text;
  });
}

TEST_P(CommTest, JoiningWaitsForAllRanksAndNamesThoseMissing) {
  Result<UniqueId> id = MakeUniqueId();
  const Status alone = Join(*id, 1, 3, std::chrono::seconds(1)).status();
  EXPECT_NE(alone.message().find("rank 0, 2 of 3 did not join"), std::string::npos) << alone.ToString();
}

TEST_P(CommTest, IsNotCaptured) {
  OnRanks(kRanks, [](Rank& rank) {
    const DeviceBytes memory(Bytes(4));
    ASSERT_TRUE(device::StreamBeginCapture(rank.stream.get(), device::CaptureMode::kThreadLocal).ok());
    const Status refused = rank.comm->AllGather(memory.get(), memory.get(), 1, rank.stream.get());
    EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition) << refused.ToString();
    device::UniqueGraph graph;
    device::StreamEndCapture(rank.stream.get(), graph.Receive()).IgnoreError();
    const DeviceBytes in(Bytes(1, 5)), all(Bytes(kRanks, 0));
    CUDAEP_ASSERT_OK(rank.comm->AllGather(in.get(), all.get(), 1, rank.stream.get()));
    EXPECT_EQ(all.Read(rank.stream.get()), Bytes(kRanks, 5));
  });
}

INSTANTIATE_TEST_SUITE_P(
    Modes, CommTest, testing::Values(Mode::kLate, Mode::kRandom, Mode::kEager), [](const auto& mode) {
      return std::string(mode.param == Mode::kLate ? "Late" : mode.param == Mode::kRandom ? "Random" : "Eager");
    });

}  // namespace
}  // namespace cudaep::comm
