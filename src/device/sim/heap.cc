#include "device/sim/heap.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/checked_math.h"
#include "core/strings.h"
#include "device/sim/memory_key.h"
#include "device/sim/sanitizers.h"

namespace cudaep::device::sim {
namespace {

constexpr size_t kAlignment = 256;  // what cudaMalloc promises
constexpr size_t kRedZoneBytes = 256;
constexpr size_t kPageBytes = 4096;
constexpr size_t kCommitBytes = size_t{64} << 20;
// Larger allocations are filled at both ends only: arenas reserve far more than tests touch.
constexpr size_t kFillLimitBytes = size_t{64} << 20;
constexpr size_t kFillEndBytes = size_t{1} << 20;
constexpr size_t kGiveBackBytes = size_t{1} << 20;  // freed chunks from here on return their pages to the system

// Serials are unique over all heaps, so that histories can be compared.
uint64_t NextSerial() {
  static uint64_t serial = 0;
  return ++serial;
}

void Fill(uintptr_t begin, size_t bytes) {
  auto* memory = reinterpret_cast<unsigned char*>(begin);
  if (bytes <= kFillLimitBytes) {
    std::memset(memory, kFreshByte, bytes);
    return;
  }
  std::memset(memory, kFreshByte, kFillEndBytes);
  std::memset(memory + bytes - kFillEndBytes, kFreshByte, kFillEndBytes);
}

// Offset of the first byte in [begin, end) that is not `value`, or -1.
ptrdiff_t FirstOther(uintptr_t begin, uintptr_t end, unsigned char value) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(begin);
  const size_t count = end - begin;
  if (count == 0 || (bytes[0] == value && std::memcmp(bytes, bytes + 1, count - 1) == 0)) return -1;
  return std::find_if(bytes, bytes + count, [value](unsigned char byte) { return byte != value; }) - bytes;
}

}  // namespace

std::string Allocation::Describe() const {
  std::string text = StrCat("allocation ", serial, " (", bytes, " bytes at ", reinterpret_cast<void*>(begin),
                            stream_ordered ? ", stream-ordered" : "", ", made by call ", born);
  if (died != 0) text += StrCat(", freed by call ", died);
  if (last_writer.known()) text += StrCat(", last written by ", last_writer.Describe());
  return text + ")";
}

Heap::Heap(uintptr_t base, size_t range_bytes, size_t capacity_bytes, size_t quarantine_bytes, bool guard_pages,
           bool keyed)
    : base_(base),
      range_bytes_(range_bytes),
      capacity_bytes_(capacity_bytes),
      quarantine_limit_(quarantine_bytes),
      guard_pages_(guard_pages),
      keyed_(keyed),
      top_(base + range_bytes),
      frontier_(base),
      committed_(base) {}

// Whoever maps these addresses next must not meet our poison.
Heap::~Heap() {
  UnpoisonMemory(reinterpret_cast<void*>(base_), frontier_ - base_);
  for (const auto& [begin, allocation] : allocations_) {
    if (allocation->growable) Forget(*allocation);
  }
}

// The poison around and behind growable memory goes; that of what was never mapped was never there.
void Heap::Forget(const Allocation& growable) {
  UnpoisonMemory(reinterpret_cast<void*>(growable.chunk_begin), growable.bytes + 2 * kRedZoneBytes);
}

// Addresses for growable memory: those of an earlier one of the same size, or new ones.
uintptr_t Heap::TakeReserve(size_t bytes) {
  for (auto span = free_reserves_.begin(); span != free_reserves_.end(); ++span) {
    if (span->second != bytes) continue;
    const uintptr_t begin = span->first;
    free_reserves_.erase(span);
    return begin;
  }
  if (bytes > top_ - frontier_) return 0;
  const uintptr_t begin = (top_ - bytes) / kPageBytes * kPageBytes;
  if (begin < committed_ || !Open(begin, top_ - begin)) return 0;
  return top_ = begin;
}

bool Heap::TakeBytes(size_t bytes) {
  if (bytes > capacity_bytes_ - used_bytes_) return false;
  used_bytes_ += bytes;
  peak_bytes_ = std::max(peak_bytes_, used_bytes_);
  return true;
}

Allocation* Heap::Allocate(size_t bytes, uint64_t call, std::shared_ptr<MemoryPoolHandle> pool) {
  if (pool == nullptr && bytes > capacity_bytes_ - used_bytes_) return nullptr;
  const size_t chunk_bytes = guard_pages_ ? AlignUp(bytes + kRedZoneBytes, kPageBytes) + kPageBytes
                                          : AlignUp(bytes, kAlignment) + 2 * kRedZoneBytes;
  const uintptr_t chunk = TakeChunk(chunk_bytes);
  if (chunk == 0) return nullptr;
  auto owned = std::make_unique<Allocation>();
  Allocation* allocation = owned.get();
  allocation->bytes = bytes;
  allocation->chunk_begin = chunk;
  allocation->chunk_bytes = chunk_bytes;
  allocation->serial = NextSerial();
  allocation->born = call;
  uintptr_t chunk_end = chunk + chunk_bytes;
  if (guard_pages_) {
    chunk_end -= kPageBytes;
    Open(chunk, chunk_bytes - kPageBytes);
    mprotect(reinterpret_cast<void*>(chunk_end), kPageBytes, PROT_NONE);
    allocation->begin = chunk_end - AlignUp(bytes, size_t{16});
  } else {
    allocation->begin = chunk + kRedZoneBytes;
  }
  UnpoisonMemory(reinterpret_cast<void*>(chunk), chunk_end - chunk);
  // Only the red zone next to the memory is filled and checked; with guard pages the rest of a page lies before it.
  std::memset(reinterpret_cast<void*>(allocation->begin - kRedZoneBytes), kRedZoneByte, kRedZoneBytes);
  Fill(allocation->begin, bytes);
  std::memset(reinterpret_cast<void*>(allocation->end()), kRedZoneByte, chunk_end - allocation->end());
  PoisonMemory(reinterpret_cast<void*>(chunk), allocation->begin - chunk);
  PoisonMemory(reinterpret_cast<void*>(allocation->end()), chunk_end - allocation->end());
  if (pool == nullptr) TakeBytes(bytes);
  allocation->pool = std::move(pool);
  live_.emplace(chunk, allocation);
  allocations_.emplace(chunk, std::move(owned));
  return allocation;
}

// Addresses, in need those of the freed memory that was kept from reuse.
uintptr_t Heap::TakeChunk(size_t bytes) {
  uintptr_t chunk = TakeAddresses(bytes);
  while (chunk == 0 && !quarantine_.empty()) {
    EvictOldest();
    chunk = TakeAddresses(bytes);
  }
  return chunk;
}

Allocation* Heap::Reserve(size_t most_bytes, uint64_t call) {
  const size_t chunk_bytes = AlignUp(most_bytes, kAlignment) + 2 * kRedZoneBytes;
  const uintptr_t chunk = TakeReserve(chunk_bytes);
  if (chunk == 0) return nullptr;
  auto owned = std::make_unique<Allocation>();
  Allocation* allocation = owned.get();
  allocation->begin = chunk + kRedZoneBytes;
  allocation->chunk_begin = chunk;
  allocation->chunk_bytes = chunk_bytes;
  allocation->growable = true;
  allocation->serial = NextSerial();
  allocation->born = call;
  UnpoisonMemory(reinterpret_cast<void*>(chunk), kRedZoneBytes);
  std::memset(reinterpret_cast<void*>(chunk), kRedZoneByte, kRedZoneBytes);
  PoisonMemory(reinterpret_cast<void*>(chunk), kRedZoneBytes);
  MarkEnd(*allocation);
  live_.emplace(chunk, allocation);
  allocations_.emplace(chunk, std::move(owned));
  return allocation;
}

// The red zone behind growable memory.
void Heap::MarkEnd(const Allocation& allocation) {
  auto* const end = reinterpret_cast<void*>(allocation.end());
  UnpoisonMemory(end, kRedZoneBytes);
  std::memset(end, kRedZoneByte, kRedZoneBytes);
  PoisonMemory(end, kRedZoneBytes);
}

void Heap::Resize(Allocation* allocation, size_t bytes) {
  const size_t before = allocation->bytes;
  if (bytes == before) return;
  const uintptr_t from = allocation->begin + std::min(before, bytes), to = allocation->begin + std::max(before, bytes);
  if (bytes > before) {
    UnpoisonMemory(reinterpret_cast<void*>(from), to - from);
    Fill(from, to - from);
    if (allocation->divided) PoisonMemory(reinterpret_cast<void*>(from), to - from);
  } else {
    const uintptr_t first = AlignUp(from + kRedZoneBytes, uintptr_t{kPageBytes}), last = to / kPageBytes * kPageBytes;
    PoisonMemory(reinterpret_cast<void*>(from), to - from);
    if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
  }
  allocation->bytes = bytes;
  MarkEnd(*allocation);
}

Allocation* Heap::Find(uintptr_t address) {
  auto next = allocations_.upper_bound(address);
  if (next == allocations_.begin()) return nullptr;
  Allocation* allocation = std::prev(next)->second.get();
  return address < allocation->chunk_begin + allocation->chunk_bytes ? allocation : nullptr;
}

void Heap::Release(Allocation* allocation, uint64_t call) {
  allocation->state = Allocation::State::kFreed;
  if (allocation->died == 0) allocation->died = call;
  if (allocation->pool == nullptr && !allocation->growable) used_bytes_ -= allocation->bytes;
  live_.erase(allocation->chunk_begin);
  UnpoisonMemory(reinterpret_cast<void*>(allocation->begin), allocation->bytes);  // between blocks, steps not mapped
  Fill(allocation->begin, allocation->bytes);
  PoisonMemory(reinterpret_cast<void*>(allocation->begin), allocation->bytes);
  quarantine_.push_back(allocation);
  quarantine_used_ += allocation->quarantine_bytes();
  while (quarantine_used_ > quarantine_limit_ && !quarantine_.empty()) EvictOldest();
}

Status Heap::CheckRedZone(const Allocation& allocation) const {
  if (kAddressSanitizer) return Status::Ok();  // poisoned; ASan reports the access itself
  const uintptr_t front = allocation.begin - kRedZoneBytes;
  const uintptr_t end = allocation.growable
                            ? allocation.end() + kRedZoneBytes
                            : allocation.chunk_begin + allocation.chunk_bytes - (guard_pages_ ? kPageBytes : 0);
  const ptrdiff_t before = FirstOther(front, allocation.begin, kRedZoneByte);
  const ptrdiff_t after = FirstOther(allocation.end(), end, kRedZoneByte);
  if (before < 0 && after < 0) return Status::Ok();
  const std::string place = after >= 0 ? StrCat(after, " bytes past the end of ")
                                       : StrCat(kRedZoneBytes - static_cast<size_t>(before), " bytes before ");
  return Status(StatusCode::kDeviceError, StrCat("out-of-bounds write ", place, allocation.Describe()));
}

Status Heap::CheckRedZones() const {
  for (const auto& [begin, allocation] : live_) CUDAEP_RETURN_IF_ERROR(CheckRedZone(*allocation));
  return Status::Ok();
}

uintptr_t Heap::TakeAddresses(size_t bytes) {
  for (auto span = free_.begin(); span != free_.end(); ++span) {
    if (span->second < bytes) continue;
    const uintptr_t begin = span->first;
    const size_t rest = span->second - bytes;
    free_.erase(span);
    if (rest != 0) free_.emplace(begin + bytes, rest);
    return begin;
  }
  if (bytes > top_ - frontier_ || !Commit(frontier_ + bytes)) return 0;
  return std::exchange(frontier_, frontier_ + bytes);
}

void Heap::ReturnAddresses(uintptr_t begin, size_t bytes) {
  if (bytes >= kGiveBackBytes) {
    const uintptr_t first = AlignUp(begin, uintptr_t{kPageBytes}), last = (begin + bytes) / kPageBytes * kPageBytes;
    madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
  }
  auto [span, inserted] = free_.emplace(begin, bytes);
  auto next = std::next(span);
  if (next != free_.end() && begin + bytes == next->first) {
    span->second += next->second;
    free_.erase(next);
  }
  if (span != free_.begin()) {
    auto previous = std::prev(span);
    if (previous->first + previous->second == begin) {
      previous->second += span->second;
      free_.erase(span);
    }
  }
}

bool Heap::Open(uintptr_t begin, size_t bytes) const {
  if (keyed_) return OpenKeyedMemory(begin, bytes);
  return mprotect(reinterpret_cast<void*>(begin), bytes, PROT_READ | PROT_WRITE) == 0;
}

bool Heap::Commit(uintptr_t end) {
  if (end <= committed_) return true;
  const uintptr_t limit = top_;
  const uintptr_t target = std::min(limit, committed_ + AlignUp(end - committed_, uintptr_t{kCommitBytes}));
  if (!Open(committed_, target - committed_)) return false;
  committed_ = target;
  return true;
}

void Heap::EvictOldest() {
  Allocation* allocation = quarantine_.front();
  quarantine_.pop_front();
  quarantine_used_ -= allocation->quarantine_bytes();
  const uintptr_t begin = allocation->chunk_begin;
  const size_t bytes = allocation->chunk_bytes;
  const bool growable = allocation->growable;
  if (growable) {
    Forget(*allocation);
    madvise(reinterpret_cast<void*>(begin), AlignUp(allocation->bytes, kPageBytes), MADV_DONTNEED);
    free_reserves_.emplace(begin, bytes);
  }
  allocations_.erase(begin);
  if (!growable) ReturnAddresses(begin, bytes);
}

}  // namespace cudaep::device::sim
