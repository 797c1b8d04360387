#include "runtime/profiler.h"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "lib/ranges.h"

namespace cudaep::profile {
namespace {

// An event that the calling thread is in. A thread may end inside one, so the list needs no destructor.
struct OpenEvent {
  uint64_t profiler, event, scope;
  OpenEvent* outer;
};
thread_local constinit OpenEvent* t_open = nullptr;

// Of a part of a node, which the host does not know.
constexpr uint64_t kPart = ~uint64_t{0};

// Profilers of one thread whose events nest: those of a session and of sessions that its nodes run.
constexpr size_t kMostOnThread = 8;

struct Scope {
  uint64_t profiler = 0;  // 0: it has ended, or this is the replay of a graph
  uint64_t outer = 0;
  uint32_t node = 0;
  double cost_bytes = 0, cost_flops = 0;
  std::shared_ptr<const ReplayedNodes> replayed;
  bool is_done = false;  // left before its profiler closed: nothing is queued in it any more
};
using Scopes = std::unordered_map<uint64_t, Scope>;

struct Found {
  lib::Activity activity;
  uint64_t scope;  // the profiler's own
  std::shared_ptr<const ReplayedNodes> replayed;
};

class Nodes {
 public:
  uint32_t Number(const NodeText& node) {
    const auto [entry, is_new] = numbers_.emplace(std::tuple(node.name, node.index, node.op_type, node.is_node),
                                                  static_cast<uint32_t>(all_.size()));
    if (is_new) all_.push_back(node);
    return entry->second;
  }
  std::vector<NodeText> Take() { return std::move(all_); }

 private:
  std::vector<NodeText> all_{1};
  std::map<std::tuple<std::string, std::string, std::string, bool>, uint32_t> numbers_;
};

struct Client {
  bool closed = false;
  Nodes nodes;
  std::vector<uint64_t> scopes;
  std::vector<Found> found;
  uint64_t dropped = 0;
  uint64_t lost_before = 0;
};

class Collector final : public lib::ActivitySink {
 public:
  static Collector& Get() {
    static auto* const collector = new Collector;  // threads may be inside events while the process ends
    return *collector;
  }

  Result<uint64_t> Begin() {
    const std::lock_guard control(control_);
    if (profilers_ == 0) {
      CUDAEP_ASSIGN_OR_RETURN(lib::ActivityTrace* const trace, lib::FindActivityTrace());
      CUDAEP_RETURN_IF_ERROR(trace->Start(this));
      trace_.store(trace, std::memory_order_release);
    }
    ++profilers_;
    detail::on.fetch_add(1, std::memory_order_relaxed);
    const uint64_t lost = trace()->Lost();
    const std::lock_guard lock(mutex_);
    const uint64_t id = ++last_id_;
    clients_[id].lost_before = lost;
    return id;
  }

  void Enter(uint64_t id, uint64_t event) {
    size_t ended = 0;
    uint64_t scope = 0;
    {
      const std::lock_guard lock(mutex_);
      ended = DropEnded();
      const auto client = clients_.find(id);
      if (client == clients_.end() || client->second.closed) {
        // Nothing of it begins any more.
      } else if (client->second.scopes.size() < kMostEvents) {
        scope = AddScope({.profiler = id, .outer = t_open == nullptr ? 0 : t_open->scope});
        client->second.scopes.push_back(scope);
      } else {
        ++client->second.dropped;
      }
    }
    PopScopes(ended);
    if (scope != 0) Push(id, event, scope);
  }

  void Leave(uint64_t id, uint64_t event, const NodeText& node) {
    size_t left = 0;
    {
      const std::lock_guard lock(mutex_);
      const OpenEvent* open = t_open;
      while (open != nullptr && (open->profiler != id || open->event != event)) open = open->outer;
      if (open != nullptr) {
        const auto client = clients_.find(id);
        const auto scope = scopes_.find(open->scope);
        if (client != clients_.end() && scope != scopes_.end()) {
          scope->second.node = client->second.nodes.Number(node);
          scope->second.is_done = !client->second.closed;
        }
        for (const OpenEvent* const rest = open->outer; t_open != rest; ++left) Drop();
      }
      left += DropEnded();
    }
    PopScopes(left);
  }

  void Describe(double bytes, double flops) {
    const std::lock_guard lock(mutex_);
    ForEachProfilerHere(t_open == nullptr ? 0 : t_open->scope, [&](uint64_t, Scope& scope) {
      scope.cost_bytes = bytes;
      scope.cost_flops = flops;
    });
  }

  void EnterPart() {
    std::vector<uint64_t> here;
    for (const OpenEvent* open = t_open; open != nullptr; open = open->outer) {
      if (open->event != kPart && std::ranges::find(here, open->profiler) == here.end()) here.push_back(open->profiler);
    }
    for (const uint64_t id : here) Enter(id, kPart);
  }
  void LeavePart(const NodeText& part) {
    while (t_open != nullptr && t_open->event == kPart) Leave(t_open->profiler, kPart, part);
  }

  bool PushReplay(const std::shared_ptr<const ReplayedNodes>& nodes) {
    uint64_t profiler = 0, scope = 0;
    size_t ended = 0;
    {
      const std::lock_guard lock(mutex_);
      ended = DropEnded();
      if (t_open != nullptr && scopes_.contains(t_open->scope)) {
        profiler = t_open->profiler;
        scope = AddScope({.outer = t_open->scope, .replayed = nodes});
        clients_.at(profiler).scopes.push_back(scope);
      }
    }
    PopScopes(ended);
    if (scope != 0) Push(profiler, 0, scope);
    return scope != 0;
  }
  void PopReplay() {
    if (t_open == nullptr) return;
    Drop();
    PopScopes(1);
  }

  void Take(std::span<const lib::Activity> activities) override {
    const std::lock_guard lock(mutex_);
    for (const lib::Activity& activity : activities) {
      const auto innermost = scopes_.find(activity.scope);
      if (innermost == scopes_.end()) continue;
      ForEachProfilerHere(activity.scope, [&](uint64_t id, const Scope& scope) {
        Client& client = clients_.at(scope.profiler);
        if (client.found.size() < kMostEvents) {
          client.found.push_back({activity, id, innermost->second.replayed});
        } else {
          ++client.dropped;
        }
      });
    }
  }

  void Close(uint64_t id) {
    const std::lock_guard lock(mutex_);
    if (const auto client = clients_.find(id); client != clients_.end()) client->second.closed = true;
  }

  ProfiledEvents End(uint64_t id) {
    Client client;
    Scopes scopes;
    uint64_t lost = 0;
    Status flushed;
    {
      const std::lock_guard control(control_);
      flushed = trace()->Flush(profilers_ == 1);
      lost = trace()->Lost();
      {
        const std::lock_guard lock(mutex_);
        const auto found = clients_.find(id);
        if (found == clients_.end()) return {};
        client = std::move(found->second);
        scopes = TakeScopes(id, client);
        clients_.erase(found);
      }
      detail::on.fetch_sub(1, std::memory_order_relaxed);
      if (--profilers_ == 0) trace()->Stop();
    }
    ProfiledEvents events = Name(client, scopes);
    events.lost = lost - client.lost_before;
    events.flushed = std::move(flushed);
    return events;
  }

  lib::ActivityTrace* trace() const { return trace_.load(std::memory_order_acquire); }

  size_t scopes() const {
    const std::lock_guard lock(mutex_);
    return scopes_.size();
  }

 private:
  uint64_t AddScope(Scope scope) {
    const uint64_t id = ++last_id_;
    scopes_.emplace(id, std::move(scope));
    return id;
  }

  // The trace's own locks are never taken inside ours.
  void Push(uint64_t profiler, uint64_t event, uint64_t scope) const {
    t_open = new OpenEvent{profiler, event, scope, t_open};
    trace()->PushScope(scope);
  }
  void PopScopes(size_t count) const {
    for (; count != 0; --count) trace()->PopScope();
  }
  static void Drop() { const std::unique_ptr<OpenEvent> dropped(std::exchange(t_open, t_open->outer)); }
  // The host does not say that an event ends after the profiling has.
  size_t DropEnded() const {
    size_t count = 0;
    for (; t_open != nullptr; ++count) {
      const auto client = clients_.find(t_open->profiler);
      if (client != clients_.end() && !client->second.closed) break;
      Drop();
    }
    return count;
  }

  // Each profiler that has an event around `scope`, with its innermost one.
  template <class F>
  void ForEachProfilerHere(uint64_t scope, F&& tell) {
    std::array<uint64_t, kMostOnThread> told{};
    size_t count = 0;
    while (scope != 0) {
      const auto found = scopes_.find(scope);
      if (found == scopes_.end()) return;
      const uint64_t profiler = found->second.profiler;
      const auto end = told.begin() + static_cast<ptrdiff_t>(count);
      if (profiler != 0 && count < told.size() && std::find(told.begin(), end, profiler) == end) {
        told[count++] = profiler;
        tell(scope, found->second);
      }
      scope = found->second.outer;
    }
  }

  // Takes long, and no lock.
  ProfiledEvents Name(Client& client, const Scopes& scopes) {
    ProfiledEvents events;
    events.dropped = client.dropped;
    struct Launch {
      const ReplayedNodes* replayed = nullptr;
      std::vector<size_t> members;
    };
    std::map<std::pair<uint64_t, uint64_t>, Launch> launches;  // of graphs, by scope and call
    for (const Found& found : client.found) {
      const Scope& scope = scopes.at(found.scope);
      if (found.replayed != nullptr) {
        Launch& launch = launches[{found.activity.scope, found.activity.call}];
        launch.replayed = found.replayed.get();
        launch.members.push_back(events.activities.size());
      }
      events.activities.push_back({.activity = found.activity,
                                   .node = scope.node,
                                   .call = found.scope,
                                   .cost_bytes = scope.cost_bytes,
                                   .cost_flops = scope.cost_flops,
                                   .replayed = found.replayed != nullptr});
    }
    for (const auto& [key, launch] : launches) {
      NameReplay(*launch.replayed, launch.members, &client.nodes, &events.activities);
    }
    std::stable_sort(events.activities.begin(), events.activities.end(),
                     [](const auto& a, const auto& b) { return a.activity.begin_ns < b.activity.begin_ns; });
    events.nodes = client.nodes.Take();
    return events;
  }

  void NameReplay(const ReplayedNodes& replayed, const std::vector<size_t>& members, Nodes* nodes,
                  std::vector<ProfiledActivity>* all) {
    std::vector<lib::Activity*> activities;
    std::unordered_map<const lib::Activity*, ProfiledActivity*> owners;
    for (const size_t member : members) {
      ProfiledActivity& owner = (*all)[member];
      activities.push_back(&owner.activity);
      owners[&owner.activity] = &owner;
    }
    const std::vector<uint32_t> names = replayed.Match(activities);
    const uint64_t first_call = last_id_.fetch_add(replayed.nodes().size()) + 1;
    for (size_t i = 0; i < activities.size(); ++i) {
      if (names[i] == ReplayedNodes::kNobody) continue;
      const ModelNode& node = replayed.nodes()[names[i]];
      ProfiledActivity& owner = *owners.at(activities[i]);
      owner.node = nodes->Number({node.name, node.op_type, "", true, node.type});
      owner.call = first_call + names[i];
      owner.cost_bytes = node.cost_bytes;
      owner.cost_flops = node.cost_flops;
    }
  }

  // Those of an ending profiler. What is open inside another profiler's event still leads there.
  Scopes TakeScopes(uint64_t id, const Client& client) {
    if (clients_.size() == 1) return std::exchange(scopes_, {});
    Scopes taken;
    for (const uint64_t number : client.scopes) {
      const auto scope = scopes_.find(number);
      if (scope == scopes_.end()) continue;
      const auto outer = scopes_.find(scope->second.outer);
      if (scope->second.is_done || outer == scopes_.end() || outer->second.profiler == id) {
        taken.insert(scopes_.extract(scope));
      } else {
        taken.emplace(number, scope->second);
        scope->second.profiler = 0;
      }
    }
    return taken;
  }

  std::mutex control_;  // of who begins and ends; locked before the trace's own locks
  size_t profilers_ = 0;
  std::atomic<lib::ActivityTrace*> trace_{nullptr};

  mutable std::mutex mutex_;  // locked inside the trace's and the device's locks; nothing below calls them but scopes
  std::atomic<uint64_t> last_id_{0};  // of profilers, scopes and calls
  std::unordered_map<uint64_t, Client> clients_;
  Scopes scopes_;
};

}  // namespace

Profiler::~Profiler() { End(); }

Status Profiler::Begin() {
  if (id_ != 0) return FailedPrecondition("the profiler has begun");
  CUDAEP_ASSIGN_OR_RETURN(id_, Collector::Get().Begin());
  return Status::Ok();
}

void Profiler::Enter(uint64_t event) {
  if (id_ != 0) Collector::Get().Enter(id_, event);
}

void Profiler::Leave(uint64_t event, const NodeText& node) {
  if (id_ != 0) Collector::Get().Leave(id_, event, node);
}

void Profiler::Close() {
  if (id_ != 0) Collector::Get().Close(id_);
}

ProfiledEvents Profiler::End() {
  if (id_ == 0 || ended_.exchange(true)) return {};
  return Collector::Get().End(id_);
}

uint64_t Profiler::Now() const { return id_ == 0 ? 0 : Collector::Get().trace()->Now(); }

void ShowRanges() {
  if (lib::RangesAreHeard()) detail::on.fetch_or(detail::kRanges, std::memory_order_relaxed);
}

void CallScope::Begin(const char* label) const {
  if ((on_ & detail::kRanges) != 0) lib::BeginRange(label);
}
void CallScope::End() const {
  if ((on_ & detail::kRanges) != 0) lib::EndRange();
}

void DescribeCall(double bytes, double flops) { Collector::Get().Describe(bytes, flops); }

void PartScope::Begin() { Collector::Get().EnterPart(); }
void PartScope::End() const { Collector::Get().LeavePart({part_->name, part_->op_type, "", true, part_->type}); }

void ReplayScope::Push(const std::shared_ptr<const ReplayedNodes>& nodes) {
  if (nodes != nullptr) pushed_ = Collector::Get().PushReplay(nodes);
}
void ReplayScope::Pop() { Collector::Get().PopReplay(); }

bool IsSimulated() {
  const lib::ActivityTrace* const trace = Collector::Get().trace();
  return trace != nullptr && trace->simulated();
}

size_t HeldScopes() { return Collector::Get().scopes(); }

}  // namespace cudaep::profile
