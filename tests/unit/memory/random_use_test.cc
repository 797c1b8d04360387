// Long random use of the pool and the external allocator over several streams, in every mode of the simulated device:
// each block is written, read back before it is freed, and used in its stream's order only. What hands memory out too
// early is refused by the device or read back wrong.
#include <algorithm>
#include <array>
#include <random>

#include "caller_memory.h"
#include "core/strings.h"
#include "device/sim/sanitizers.h"
#include "memory/arena/arena.h"
#include "memory/blocks/pool_allocator.h"

namespace cudaep::memory {
namespace {

using testing::CallerMemory;
namespace sim = device::sim;

constexpr size_t kStreams = 4;
constexpr size_t kReadBytes = 64;  // of each block, at its end
constexpr size_t kReads = 4096;
constexpr int kSteps = 1500;
constexpr uint64_t kSeeds = sim::kThreadSanitizer ? 2 : 4;  // there each takes over ten times as long

enum class Kind { kPool, kPoolKeepsAll, kExternal, kArena, kTightArena };

class RandomUseTest : public device::testing::DeviceTest {
 protected:
  struct Block {
    char* pointer;
    size_t bytes, stream;
    int value;
  };
  struct Read {
    size_t slot, bytes, stream;
    int value;
  };

  void Begin(Kind kind, sim::Mode mode, uint64_t seed) {
    Start(With(mode, seed));
    random_.seed(seed);
    largest_ = 300000;
    live_.clear();
    reads_.clear();
    slots_ = 0;
    for (device::UniqueStream& stream : own_) ASSERT_OK(device::StreamCreate(stream.Receive()));
    CallerMemory::Reset(own_[0].get());
    has_caller_ = kind == Kind::kExternal;
    pinned_ = AllocatePinned<char>(kReads * kReadBytes);
    if (has_caller_) {
      auto made = ExternalAllocator::Create(0, CallerMemory::Callbacks(), budget_);
      ASSERT_OK(made.status());
      allocator_ = std::move(made).value();
    } else if (kind == Kind::kArena || kind == Kind::kTightArena) {
      ArenaConfig config;
      if (kind == Kind::kTightArena) {  // little beyond what is in use: it waits, empties caches, unmaps and maps
        config.slack_bytes = size_t{4} << 20;
        config.extend_strategy = ExtendStrategy::kSameAsRequested;
        largest_ = size_t{3} << 20;
      }
      allocator_ = std::make_unique<Arena>(MemorySource{MemoryKind::kDevice, 0, budget_}, config);
    } else {
      ArenaConfig config;
      config.pool_release_threshold_bytes = kind == Kind::kPoolKeepsAll ? SIZE_MAX : 0;
      auto made = PoolAllocator::Create(0, config, budget_);
      ASSERT_OK(made.status());
      allocator_ = std::move(made).value();
    }
    for (device::UniqueStream& stream : own_) allocator_->AddStream(stream.get());
  }

  size_t Random(size_t below) { return random_() % below; }
  device::Stream Own(size_t index) { return own_[index].get(); }

  void TakeOne(size_t on) {
    const size_t bytes = 1 + Random(Random(4) == 0 ? largest_ : 5000);
    Result<void*> pointer = Random(4) == 0 ? allocator_->Allocate(bytes) : allocator_->AllocateOnStream(bytes, Own(on));
    ASSERT_OK(pointer.status());
    const int value = static_cast<int>(Random(100));
    ASSERT_OK(device::MemsetAsync(pointer.value(), value, bytes, Own(on)));
    live_.push_back({static_cast<char*>(pointer.value()), bytes, on, value});
  }

  void FreeOne() {
    if (live_.empty()) return;
    std::swap(live_[Random(live_.size())], live_.back());
    const Block block = live_.back();
    live_.pop_back();
    if (slots_ == kReads) {
      for (size_t i = 0; i < kStreams; ++i) Wait(i);
      slots_ = 0;
    }
    const size_t bytes = std::min(block.bytes, kReadBytes), slot = slots_++;
    ASSERT_OK(device::MemcpyAsync(pinned_ + slot * kReadBytes, block.pointer + block.bytes - bytes, bytes,
                                  Own(block.stream)));
    reads_.push_back({slot, bytes, block.stream, block.value});
    allocator_->Free(block.pointer);
  }

  // Waits for a stream and looks at what was read there.
  void Wait(size_t on) {
    ASSERT_OK(device::StreamSynchronize(Own(on)));
    for (const Read& read : reads_) {
      if (read.stream != on) continue;
      const char* begin = pinned_ + read.slot * kReadBytes;
      ASSERT_EQ(std::count(begin, begin + read.bytes, static_cast<char>(read.value)),
                static_cast<ptrdiff_t>(read.bytes));
    }
    std::erase_if(reads_, [on](const Read& read) { return read.stream == on; });
  }

  // The stream ends, its blocks outlive it, and another takes its place.
  void Replace(size_t on) {
    if (has_caller_ && on == 0) return;
    Wait(on);
    allocator_->ReleaseStream(Own(on));
    ASSERT_OK(device::StreamCreate(own_[on].Receive()));
    allocator_->AddStream(Own(on));
    for (const Block& block : live_) {
      if (block.stream == on) allocator_->Free(block.pointer);
    }
    std::erase_if(live_, [on](const Block& block) { return block.stream == on; });
  }

  void CallerWorks() {
    if (!has_caller_) return;
    void* theirs = CallerMemory::Alloc((1 + Random(20)) * kAlignmentBytes);
    ASSERT_OK(device::MemsetAsync(theirs, 7, kAlignmentBytes, Own(0)));
    CallerMemory::Free(theirs);
  }

  void Use() {
    for (int step = 0; step < kSteps && !HasFatalFailure(); ++step) {
      const size_t choice = Random(100), on = Random(kStreams);
      if (choice < 45) {
        TakeOne(on);
      } else if (choice < 85) {
        FreeOne();
      } else if (choice < 93) {
        const StreamMark before = allocator_->Mark(Own(on));
        const size_t freed = Random(3);  // behind the mark
        for (size_t i = 0; i < freed; ++i) TakeOne(on), FreeOne();
        Wait(on);
        if (Random(2) == 0) TakeOne(on), FreeOne();
        allocator_->Reached(before);
      } else if (choice < 95) {
        ASSERT_OK(allocator_->Shrink());
      } else if (choice < 97) {
        Replace(on);
      } else {
        CallerWorks();
      }
      const AllocatorStats stats = allocator_->Stats();
      ASSERT_LE(stats.bytes_in_use, stats.bytes_reserved);
      ASSERT_EQ(stats.bytes_reserved, static_cast<int64_t>(budget_->charged_bytes()));
    }
    while (!live_.empty()) FreeOne();
    for (size_t i = 0; i < kStreams; ++i) Wait(i);
    EXPECT_EQ(allocator_->Stats().bytes_in_use, 0);
    ASSERT_OK(allocator_->Shrink());
    EXPECT_EQ(allocator_->Stats().bytes_reserved, 0);
  }

  void End() {
    allocator_.reset();
    EXPECT_EQ(budget_->charged_bytes(), 0u);
    EXPECT_EQ(CallerMemory::outstanding(), 0u);
    CallerMemory::Reset(nullptr);
    for (device::UniqueStream& stream : own_) stream.Reset();
    EXPECT_EQ(sim::BytesInUse(0), 0u);
  }

 private:
  std::mt19937_64 random_;
  const std::shared_ptr<Budget> budget_ = std::make_shared<Budget>();
  std::array<device::UniqueStream, kStreams> own_;  // the first is the caller's
  bool has_caller_ = false;
  size_t largest_ = 0;  // blocks asked for
  std::vector<Block> live_;
  std::vector<Read> reads_;
  size_t slots_ = 0;
  char* pinned_ = nullptr;

 protected:
  std::unique_ptr<Allocator> allocator_;
  int64_t waits_ = 0, unmapped_ = 0;
};

TEST_F(RandomUseTest, NoBlockIsHandedOutTooEarly) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    for (const Kind kind : {Kind::kPool, Kind::kPoolKeepsAll, Kind::kExternal, Kind::kArena, Kind::kTightArena}) {
      if (kind == Kind::kTightArena && seed > 2) continue;  // its blocks are large
      for (const sim::Mode mode : {sim::Mode::kLate, sim::Mode::kRandom, sim::Mode::kEager}) {
        SCOPED_TRACE(StrCat("seed ", seed, ", allocator ", static_cast<int>(kind), ", mode ", static_cast<int>(mode)));
        Begin(kind, mode, seed);
        if (!HasFatalFailure()) Use();
        waits_ += allocator_->Stats().stream_waits;
        unmapped_ += kind == Kind::kTightArena ? allocator_->Stats().driver_frees : 0;
        End();
        if (HasFailure()) return;
      }
    }
  }
  EXPECT_GT(waits_, 100);  // what the tight arena is for
  EXPECT_GT(unmapped_, 100);
}

}  // namespace
}  // namespace cudaep::memory
