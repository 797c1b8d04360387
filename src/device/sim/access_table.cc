#include "device/sim/access_table.h"

#include <algorithm>

#include "core/strings.h"

namespace cudaep::device::sim {
namespace {

constexpr size_t kMaxPoints = 4096;
constexpr size_t kMaxRanges = 64;
constexpr size_t kMaxEnded = 512;

}  // namespace

Status AccessTable::Check(const Access& access, const Actor& actor, const StreamHandle& stream,
                          const Clock& host) const {
  const auto ordered = [&](const Mark& mark) {
    return mark.slot == stream.slot || host.Covers(mark.slot, mark.sequence) ||
           stream.clock.Covers(mark.slot, mark.sequence);
  };
  const auto conflict = [&](const Mark& mark, bool earlier_writes) {
    return Status(StatusCode::kDeviceError,
                  StrCat("unordered access: ", actor.Describe(), access.write ? " writes " : " reads ",
                         reinterpret_cast<void*>(access.begin), " while ", mark.actor.Describe(),
                         earlier_writes ? " may still write it" : " may still read it",
                         "; an event or a synchronisation between the two streams is missing"));
  };
  const uintptr_t begin = access.begin, end = access.end();
  for (auto it = points_.lower_bound(access.first()); it != points_.end() && it->first < end; ++it) {
    const Point& point = it->second;
    if (point.end <= begin) continue;
    if (point.written && !ordered(point.write)) return conflict(point.write, true);
    if (!access.write) continue;
    for (const Mark& read : point.reads) {
      if (!ordered(read)) return conflict(read, false);
    }
  }
  for (const std::vector<Range>* ranges : {&ranges_, &ended_}) {
    for (const Range& range : *ranges) {
      if (range.begin >= end || range.end <= begin || !(access.write || range.write)) continue;
      if (!ordered(range.mark)) return conflict(range.mark, range.write);
    }
  }
  return Status::Ok();
}

void AccessTable::Record(const Access& access, const Actor& actor, const StreamHandle& stream, uint64_t sequence,
                         const Clock& host) {
  const Mark mark{stream.slot, sequence, actor};
  if (access.bytes != 0) {
    const uintptr_t end = access.begin + access.bytes;
    const auto same = std::find_if(ranges_.begin(), ranges_.end(), [&](const Range& range) {
      return range.begin == access.begin && range.end == end && range.write == access.write &&
             range.mark.slot == stream.slot;
    });
    if (same != ranges_.end()) {
      same->mark = mark;
      return;
    }
    if (ranges_.size() >= kMaxRanges) Prune(host);
    ranges_.push_back({access.begin, end, access.write, mark});
    return;
  }
  if (points_.size() >= kMaxPoints) Prune(host);
  Point& point = points_[access.begin];
  point.end = access.end();
  if (access.write) {
    point.written = true;
    point.write = mark;
    point.reads.clear();
    return;
  }
  for (Mark& read : point.reads) {
    if (read.slot == stream.slot) {
      read = mark;
      return;
    }
  }
  point.reads.push_back(mark);
}

void AccessTable::Forget(uintptr_t begin, uintptr_t end) {
  points_.erase(points_.lower_bound(begin), points_.lower_bound(end));
  for (std::vector<Range>* ranges : {&ranges_, &ended_}) {
    std::erase_if(*ranges, [&](const Range& range) { return range.begin < end && range.end > begin; });
  }
  blocks.Forget(begin, end);
}

void AccessTable::Clear() {
  points_.clear();
  ranges_.clear();
  ended_.clear();
  blocks.Clear();
}

// The points of the block become ranges: another block may begin anywhere in its memory.
const Block* AccessTable::EndBlock(uintptr_t begin, uint64_t call, const Clock& host) {
  const Block* block = blocks.End(begin, call);
  if (block == nullptr) return nullptr;
  const auto settled = [&](const Mark& mark) { return host.Covers(mark.slot, mark.sequence); };
  if (ended_.size() >= kMaxEnded) {
    std::erase_if(ended_, [&](const Range& range) { return settled(range.mark); });
    if (ended_.size() >= kMaxEnded) ended_.erase(ended_.begin(), ended_.begin() + kMaxEnded / 2);
  }
  const auto first = points_.lower_bound(block->begin), last = points_.lower_bound(block->end);
  for (auto it = first; it != last; ++it) {
    const auto& [address, point] = *it;
    if (point.written && !settled(point.write)) ended_.push_back({address, point.end, true, point.write});
    for (const Mark& read : point.reads) {
      if (!settled(read)) ended_.push_back({address, point.end, false, read});
    }
  }
  points_.erase(first, last);
  return block;
}

void AccessTable::Prune(const Clock& host) {
  const auto settled = [&](const Mark& mark) { return host.Covers(mark.slot, mark.sequence); };
  std::erase_if(ranges_, [&](const Range& range) { return settled(range.mark); });
  if (ranges_.size() >= kMaxRanges) ranges_.erase(ranges_.begin(), ranges_.begin() + kMaxRanges / 2);
  if (points_.size() < kMaxPoints) return;
  std::erase_if(points_, [&](const auto& entry) {
    const Point& point = entry.second;
    return (!point.written || settled(point.write)) && std::all_of(point.reads.begin(), point.reads.end(), settled);
  });
  if (points_.size() >= kMaxPoints) points_.clear();
}

}  // namespace cudaep::device::sim
