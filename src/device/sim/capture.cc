#include "device/sim/capture.h"

#include <algorithm>

#include "core/strings.h"

namespace cudaep::device::sim {

bool Capture::Precedes(uint32_t earlier, const std::vector<uint32_t>& tail) const {
  return std::any_of(tail.begin(), tail.end(),
                     [&](uint32_t node) { return earlier < ancestors_[node].size() && ancestors_[node][earlier]; });
}

Status Capture::Add(StreamHandle* stream, std::shared_ptr<const Work> work) {
  if (!invalid.empty()) return InvalidError();
  const auto conflict = [&](const Use& use) {
    return Invalidate(StrCat("unordered access in a captured graph: ", work->Describe(), " on stream ", stream->id,
                             " and ", body->nodes[use.node].work->Describe(), " use ",
                             reinterpret_cast<void*>(use.begin), ", and no event joins their streams"));
  };
  for (const Access& access : work->accesses) {
    const uintptr_t end = access.end();
    for (auto it = points_.lower_bound(access.first()); it != points_.end() && it->first < end; ++it) {
      const Use& use = it->second;
      if (use.end > access.begin && (access.write || use.write) && !Precedes(use.node, stream->tail))
        return conflict(use);
    }
    for (const Use& use : ranges_) {
      if (use.begin >= end || use.end <= access.begin || !(access.write || use.write)) continue;
      if (!Precedes(use.node, stream->tail)) return conflict(use);
    }
  }
  const auto node = static_cast<uint32_t>(body->nodes.size());
  for (const Access& access : work->accesses) {
    const Use use{node, access.begin, access.end(), access.write};
    if (access.bytes == 0) {
      points_.emplace(access.begin, use);
    } else {
      ranges_.push_back(use);
    }
  }
  std::vector<bool> ancestors(node + 1);
  for (uint32_t before : stream->tail) {
    for (size_t i = 0; i < ancestors_[before].size(); ++i) {
      if (ancestors_[before][i]) ancestors[i] = true;
    }
  }
  ancestors[node] = true;
  ancestors_.push_back(std::move(ancestors));
  body->nodes.push_back({std::move(work), stream->tail});
  stream->tail.assign(1, node);
  return Status::Ok();
}

void Capture::Join(StreamHandle* stream, const std::vector<uint32_t>& nodes) {
  if (std::find(members.begin(), members.end(), stream) == members.end()) members.push_back(stream);
  for (uint32_t node : nodes) {
    if (std::find(stream->tail.begin(), stream->tail.end(), node) == stream->tail.end()) stream->tail.push_back(node);
  }
}

bool Capture::Joined() const {
  return std::all_of(members.begin(), members.end(), [&](const StreamHandle* member) {
    return std::all_of(member->tail.begin(), member->tail.end(),
                       [&](uint32_t node) { return Precedes(node, origin->tail); });
  });
}

Status Capture::Invalidate(std::string reason) {
  if (invalid.empty()) invalid = std::move(reason);
  return InvalidError();
}

Status Capture::InvalidError() const { return FailedPrecondition("the stream capture is invalid: ", invalid); }

void Capture::Detach() {
  for (StreamHandle* member : members) {
    member->capture.reset();
    member->tail.clear();
  }
  members.clear();
}

}  // namespace cudaep::device::sim
