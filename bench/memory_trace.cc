#include "memory_trace.h"

#include <algorithm>
#include <deque>
#include <fstream>
#include <random>
#include <sstream>
#include <unordered_map>

namespace cudaep::bench {
namespace {

// Appends steps and keeps the numbers of the trace; IDs that were freed come round again.
class Writer {
 public:
  uint32_t Allocate(size_t bytes, uint32_t lane) {
    uint32_t id = trace_.ids;
    if (spare_.empty()) {
      ++trace_.ids;
      bytes_.push_back(0);
    } else {
      id = spare_.back();
      spare_.pop_back();
    }
    bytes_[id] = bytes;
    live_ += bytes;
    trace_.peak_live_bytes = std::max(trace_.peak_live_bytes, live_);
    trace_.steps.push_back({TraceStep::Kind::kAllocate, id, lane, bytes});
    return id;
  }
  void Free(uint32_t id) {
    live_ -= bytes_[id];
    spare_.push_back(id);
    trace_.steps.push_back({TraceStep::Kind::kFree, id, 0, 0});
  }
  void Idle(uint32_t lane) { trace_.steps.push_back({TraceStep::Kind::kIdle, 0, lane, 0}); }
  Trace Finish(uint32_t lanes) {
    trace_.lanes = lanes;
    return std::move(trace_);
  }

 private:
  Trace trace_;
  std::vector<size_t> bytes_;
  std::vector<uint32_t> spare_;
  size_t live_ = 0;
};

// A network on its way: each layer makes its output, sometimes scratch memory, and lets go of what is not needed again.
class Network {
 public:
  Network(uint32_t lane, bool unlike) : lane_(lane), unlike_(unlike) {}

  void Begin(std::mt19937& random) {
    batch_ = size_t{1} << random() % 4;
    length_ = 32 * (1 + random() % 16);
    layers_ = 24 + static_cast<int>(random() % 25);
  }
  // False after the last layer.
  bool Layer(Writer& writer, std::mt19937& random) {
    if (layers_-- == 0) {
      for (const uint32_t id : live_) writer.Free(id);
      live_.clear();
      writer.Idle(lane_);
      return false;
    }
    const size_t width = size_t{256} << random() % 4;
    const size_t odd = unlike_ ? 256 * (random() % 4096) : 0;
    const bool needs_scratch = random() % 4 == 0;
    const uint32_t scratch = needs_scratch ? writer.Allocate(batch_ * length_ * 64 + 4096 + odd, lane_) : 0;
    live_.push_back(writer.Allocate(batch_ * length_ * width * 2 + odd, lane_));
    if (needs_scratch) writer.Free(scratch);
    const size_t kept = 1 + random() % 3;  // the last output, and what skip connections still need
    while (live_.size() > kept) {
      writer.Free(live_.front());
      live_.pop_front();
    }
    return true;
  }

 private:
  uint32_t lane_;
  bool unlike_;
  size_t batch_ = 1, length_ = 1;
  int layers_ = 0;
  std::deque<uint32_t> live_;
};

}  // namespace

Trace ModelRuns(uint32_t lanes, int runs, uint32_t seed, bool unlike) {
  std::mt19937 random(seed);
  Writer writer;
  std::vector<Network> networks;
  for (uint32_t lane = 0; lane < lanes; ++lane) networks.emplace_back(lane, unlike);
  for (int round = 0; round < runs; ++round) {
    std::vector<Network*> running;
    for (Network& network : networks) {
      network.Begin(random);
      running.push_back(&network);
    }
    while (!running.empty()) {
      const size_t next = random() % running.size();
      if (!running[next]->Layer(writer, random)) running.erase(running.begin() + static_cast<ptrdiff_t>(next));
    }
  }
  return writer.Finish(lanes);
}

namespace {

bool ReadLane(std::istringstream& words, uint32_t* lane) {
  if ((words >> std::ws).peek() != '-') return static_cast<bool>(words >> *lane);
  *lane = TraceStep::kNoLane;
  return true;
}

}  // namespace

Result<Trace> ReadTrace(const std::string& path) {
  std::ifstream file(path);
  if (!file) return InvalidArgument("the trace ", path, " cannot be read");
  constexpr uint32_t kMost = 1u << 24;
  Trace trace;
  std::unordered_map<uint32_t, size_t> live;
  size_t live_bytes = 0;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    char kind = 0;
    TraceStep step;
    const auto wrong = [&](const char* what) { return InvalidArgument(path, ", line ", number, ": ", what); };
    words >> kind;
    if (kind == 'a' && words >> step.id >> step.bytes && ReadLane(words, &step.lane)) {
      if (step.bytes == 0) return wrong("no bytes");
      if (!live.emplace(step.id, step.bytes).second) return wrong("this memory is live already");
      live_bytes += step.bytes;
    } else if (kind == 'f' && words >> step.id) {
      step.kind = TraceStep::Kind::kFree;
      const auto found = live.find(step.id);
      if (found == live.end()) return wrong("this memory is not live");
      live_bytes -= found->second;
      live.erase(found);
    } else if (kind == 'i' && words >> step.lane) {
      step.kind = TraceStep::Kind::kIdle;
    } else {
      return wrong("not one of: a ID BYTES LANE, f ID, i LANE");
    }
    if (step.id >= kMost || (step.lane >= kMost && step.lane != TraceStep::kNoLane))
      return wrong("IDs and lanes are below 2^24");
    trace.ids = std::max(trace.ids, step.id + 1);
    if (step.lane != TraceStep::kNoLane) trace.lanes = std::max(trace.lanes, step.lane + 1);
    trace.peak_live_bytes = std::max(trace.peak_live_bytes, live_bytes);
    trace.steps.push_back(step);
  }
  // What is left over is freed, so that the trace can be replayed again.
  for (const auto& [id, bytes] : live) trace.steps.push_back({TraceStep::Kind::kFree, id, 0, 0});
  for (uint32_t lane = 0; lane < trace.lanes; ++lane) trace.steps.push_back({TraceStep::Kind::kIdle, 0, lane, 0});
  return trace;
}

}  // namespace cudaep::bench
