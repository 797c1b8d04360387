// The arena's bookkeeping and its free list, without a device.
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "memory/arena/chunk_bins.h"

namespace cudaep::memory {
namespace {

TEST(ChunkBins, TheBestFitIsFoundAmongManySizes) {
  ChunkHeap heap;
  ChunkBins bins;
  std::mt19937 random(3);
  static char memory[1];
  std::vector<Chunk*> chunks;
  for (int i = 0; i < 200; ++i) {
    Chunk* chunk = heap.AddRegion(memory + (static_cast<size_t>(i) << 30), 256 * (1 + random() % 100000));
    chunk->stamp = random() % 10;
    chunks.push_back(chunk);
    bins.Insert(chunk);
  }
  for (int i = 0; i < 1000; ++i) {
    const size_t bytes = 256 * (1 + random() % 110000);
    const uint64_t newest = random() % 12;
    const Chunk* const found = bins.Find(bytes, newest);
    const Chunk* best = nullptr;
    for (const Chunk* chunk : chunks) {
      if (chunk->bytes < bytes || chunk->stamp > newest) continue;
      if (best == nullptr || chunk->bytes < best->bytes) best = chunk;
    }
    ASSERT_EQ(found == nullptr, best == nullptr);
    if (best == nullptr) continue;
    EXPECT_EQ(found->bytes, best->bytes);
    Chunk known = *best;
    EXPECT_EQ(bins.Find(bytes, newest, &known), &known);
    known.bytes = best->bytes + 256;
    EXPECT_EQ(bins.Find(bytes, newest, &known)->bytes, best->bytes);
  }
  for (Chunk* chunk : chunks) bins.Remove(chunk);
  EXPECT_TRUE(bins.empty());
  EXPECT_EQ(bins.Any(), nullptr);
}

TEST(ChunkHeap, RegionsJoinAndFallApart) {
  ChunkHeap heap;
  static char memory[4000];
  const auto layout = [&] {
    std::vector<std::pair<ptrdiff_t, size_t>> found;
    for (const ChunkHeap::Region& region : heap.regions()) {
      size_t bytes = 0;
      const Chunk* last = nullptr;
      for (const Chunk* chunk = region.first; chunk != nullptr; last = chunk, chunk = chunk->after) {
        EXPECT_EQ(chunk->data, region.data + bytes);
        EXPECT_EQ(chunk->before, last);
        bytes += chunk->bytes;
      }
      EXPECT_EQ(bytes, region.bytes);
      EXPECT_EQ(region.last, last);
      found.emplace_back(region.data - memory, region.bytes);
    }
    return found;
  };
  using Layout = std::vector<std::pair<ptrdiff_t, size_t>>;
  Chunk* const low = heap.AddAdjoining(memory, 1000);
  Chunk* const high = heap.AddAdjoining(memory + 3000, 1000);
  EXPECT_EQ(layout(), (Layout{{0, 1000}, {3000, 1000}}));
  Chunk* const between = heap.AddAdjoining(memory + 1000, 2000);
  EXPECT_EQ(layout(), (Layout{{0, 4000}}));
  Chunk* const middle = heap.Split(between, 500);
  heap.Split(middle, 500);
  heap.CutOut(middle);
  EXPECT_EQ(layout(), (Layout{{0, 1500}, {2000, 2000}}));
  heap.CutOut(low);
  EXPECT_EQ(layout(), (Layout{{1000, 500}, {2000, 2000}}));
  heap.CutOut(high);
  heap.CutOut(between);
  EXPECT_EQ(layout(), (Layout{{2000, 1000}}));
  heap.AddRegion(memory + 1000, 1000);
  EXPECT_EQ(layout(), (Layout{{1000, 1000}, {2000, 1000}}));
}

TEST(ChunkHeap, LiveChunksAreFoundAfterManyChanges) {
  ChunkHeap heap;
  static char memory[1];
  std::vector<Chunk*> live;
  std::mt19937 random(11);
  Chunk* rest = heap.AddRegion(memory, size_t{256} * 5000);
  for (int i = 0; i < 4000; ++i) {
    Chunk* const chunk = rest;
    rest = heap.Split(chunk, 256);
    heap.PushLive(chunk);
    live.push_back(chunk);
    if (random() % 2 == 0) {
      std::swap(live[random() % live.size()], live.back());
      ASSERT_EQ(heap.PopLive(live.back()->data), live.back());
      ASSERT_EQ(heap.PopLive(live.back()->data), nullptr);
      live.pop_back();
    }
  }
  EXPECT_EQ(heap.live_count(), live.size());
  for (Chunk* chunk : live) EXPECT_EQ(heap.PopLive(chunk->data), chunk);
}

TEST(LiveChunks, AreFoundRightWhileOthersComeAndGo) {
  constexpr size_t kKept = 64, kOthers = 4000;
  static char memory[256 * (kKept + kOthers + 1)];
  std::vector<Chunk> chunks(kKept + kOthers);
  LiveChunks live;
  for (size_t i = 0; i < chunks.size(); ++i) chunks[i].data = memory + 256 * i;
  for (size_t i = 0; i < kKept; ++i) live.Insert(&chunks[i * (kOthers / kKept)]);
  std::atomic<bool> done{false};
  std::atomic<size_t> found{0}, missed{0}, wrong{0};
  std::vector<std::thread> readers;
  for (int reader = 0; reader < 2; ++reader) {
    readers.emplace_back([&] {
      while (!done) {
        for (size_t i = 0; i < kKept; ++i) {
          Chunk* const kept = &chunks[i * (kOthers / kKept)];
          const Chunk* const seen = live.Find(kept->data);
          ++(seen == kept ? found : seen == nullptr ? missed : wrong);
        }
        if (live.Find(memory + sizeof(memory) - 256) != nullptr) ++wrong;
      }
    });
  }
  for (int round = 0; round < 20 || found < 10000; ++round) {
    for (size_t i = 0; i < chunks.size(); ++i) {
      if (i % (kOthers / kKept) != 0) live.Insert(&chunks[i]);
    }
    for (size_t i = 0; i < chunks.size(); ++i) {
      if (i % (kOthers / kKept) != 0) {
        EXPECT_EQ(live.Remove(chunks[i].data), &chunks[i]);
      }
    }
  }
  done = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT(found, 10 * missed);
  for (size_t i = 0; i < kKept; ++i) EXPECT_NE(live.Remove(chunks[i * (kOthers / kKept)].data), nullptr);
  EXPECT_EQ(live.count(), 0u);
}

}  // namespace
}  // namespace cudaep::memory
