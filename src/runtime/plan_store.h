// Plans of vendor libraries, one for each problem, shared by all nodes, sessions and streams of the process.
//
// A plan is identified by text: device, library with its version, and every field of the problem that decides it
// (limits and the way of choosing included). It is built once: the first to ask builds, outside any lock that askers
// for other plans wait for; others who ask for the same one wait for it. That a library cannot do something is
// remembered as well; any other failure is not (an exception included), and the next to ask tries again. A plan that
// is there already goes into the file of whoever asks with another one. A plan may be replaced while it is in use (a
// better one was found in the background; files keep the first): holders read it through its slot, and a plan once
// given out lives as long as anybody holds the slot. Bounded: above kMostPlans, plans that nobody holds are dropped,
// the least used first.
// Threads: all functions may be called from any thread.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "lib/plan.h"
#include "runtime/plan_file.h"

namespace cudaep {

using LibraryPlanPtr = std::shared_ptr<const lib::Plan>;

// Where holders find the plan of a problem.
class PlanSlot {
 public:
  explicit PlanSlot(LibraryPlanPtr plan) : first_(plan.get()), current_(first_) { kept_.push_back(std::move(plan)); }
  PlanSlot(const PlanSlot&) = delete;
  PlanSlot& operator=(const PlanSlot&) = delete;

  // One load; valid as long as the slot is held. `T` is the plan's class.
  template <class T>
  const T& As() const {
    return static_cast<const T&>(*current_.load(std::memory_order_acquire));
  }
  const lib::Plan& plan() const { return As<lib::Plan>(); }
  bool is_replaced() const { return current_.load(std::memory_order_relaxed) != first_; }

  // From now on `plan` is used. kFailedPrecondition for one that needs more workspace than the one in use, or leaves a
  // remainder that it does not: holders have prepared for no more. Who finishes a remainder asks the plan that it
  // called whether there is one.
  Status Replace(LibraryPlanPtr plan);

  // Of making another plan in the background.
  enum class Progress : uint8_t {
    kIdle,     // nothing is under way; after a failure it may be tried again
    kMaking,   // waits for its turn, or is being made
    kRefused,  // it cannot be: the library says so, or it does not fit what holders prepared for
  };
  Progress progress() const { return progress_.load(std::memory_order_relaxed); }

 private:
  friend class PlanStore;

  const lib::Plan* const first_;
  std::atomic<const lib::Plan*> current_;
  std::atomic<Progress> progress_{Progress::kIdle};
  std::mutex mutex_;
  std::vector<LibraryPlanPtr> kept_;  // guarded by mutex_; the first is what holders prepared for
};
using PlanSlotPtr = std::shared_ptr<PlanSlot>;

class PlanStore {
 public:
  static constexpr size_t kMostPlans = 4096;

  // Makes a plan: from `saved` where that is not empty, anew otherwise. A saved form that does not load is an error,
  // whereupon the store asks again without.
  using Make = std::function<Result<LibraryPlanPtr>(const std::string& saved)>;

  struct Request {
    int ordinal = 0;           // of the device
    std::string_view library;  // with its version
    std::string_view problem;
    std::string_view file;  // of plans; empty: none
  };

  struct Statistics {
    uint64_t built = 0;   // made by the library
    uint64_t loaded = 0;  // from a file
    uint64_t found = 0;   // were there already, or somebody else was making them
    uint64_t dropped = 0;
    uint64_t build_us = 0, load_us = 0;
    uint64_t plans = 0;          // that are kept, refusals included
    uint64_t in_background = 0;  // that are being made there, or wait for it
    uint64_t replacements = 0;   // as replacements() says
  };

  PlanStore() = default;
  ~PlanStore() { StopBackground(); }
  PlanStore(const PlanStore&) = delete;
  PlanStore& operator=(const PlanStore&) = delete;

  // The process's. Never destroyed.
  static PlanStore& Process();

  Result<PlanSlotPtr> Get(const Request& request, const Make& make);

  // Makes another plan for the slot on the store's own thread, one plan after another, and puts it in place; not if one
  // is in the making. Errors leave the slot as it is: its Progress and the log say what came of it. `make` gets no
  // saved form. For plans that take long to build (run-time compiled engines), while something else serves.
  // kOutOfMemory and kNotReady where the thread cannot be had, or the process exits; the slot is idle then.
  Status ReplaceInBackground(PlanSlotPtr slot, Make make);
  // Grows when kMostUntold plans in use have been replaced, or some and no more are in the making: what was captured
  // before may be slower than what would be captured now.
  static constexpr int kMostUntold = 8;
  uint64_t replacements() const { return replacement_count_.load(std::memory_order_acquire); }
  // Waits until nothing is made in the background any more. No thread is left.
  void WaitForBackground();
  // The same, but what has not begun is not made; its slots are idle. Before the library may be unmapped. Nothing in a
  // forked child, which has no such thread.
  void StopBackground();
  // Does not make what has not begun, and waits for the plan in the making alone: when the last session ends, since the
  // process may exit next, and a library's compiler would be taken apart while it compiles.
  void DropBackground();

  // Writes what was added to the files and is not written yet; the first failure.
  Status Save();

  Statistics statistics();

  // Drops all plans that nobody holds, and forgets files. For tests.
  void Clear();

 private:
  struct Entry {
    std::mutex mutex;
    std::condition_variable done;
    bool building = true;  // guarded by mutex, as is the outcome
    Status failure;
    PlanSlotPtr slot;
    std::vector<std::string> files;  // that were given the plan
    std::atomic<uint64_t> last_use{0};
  };
  struct Shard {
    std::mutex mutex;
    std::unordered_map<std::string, std::shared_ptr<Entry>> entries;  // guarded by mutex
  };
  static constexpr size_t kShards = 16;

  std::shared_ptr<Entry> FindOrAdd(Shard& shard, const std::string& key, bool* added);
  void DropOldest(Shard& shard);
  void DropEntry(Shard& shard, const std::string& key, const std::shared_ptr<Entry>& entry);
  Result<PlanSlotPtr> WaitFor(Entry& entry, const Request& request);
  Result<LibraryPlanPtr> Build(const Request& request, const Make& make);
  PlanFile* FileAt(std::string_view path);

  std::array<Shard, kShards> shards_;
  std::atomic<uint64_t> clock_{0};
  std::atomic<uint64_t> built_{0}, loaded_{0}, found_{0}, dropped_{0}, build_us_{0}, load_us_{0};
  std::mutex files_mutex_;
  std::unordered_map<std::string, std::unique_ptr<PlanFile>> files_;  // guarded by files_mutex_
  struct Replacement {
    PlanSlotPtr slot;
    Make make;
  };
  void Work();
  void StopBeforeExit();
  void LeaveProcess();
  std::list<Replacement> TakeReplacements();
  static bool Run(Replacement replacement);  // whether a plan took another's place

  std::atomic<uint64_t> replacement_count_{0};
  std::mutex background_mutex_;  // guards what follows
  std::condition_variable background_done_;
  std::list<Replacement> replacements_;  // not begun
  std::thread worker_;                   // ends when it finds nothing to do; joined by whoever comes next
  bool is_working_ = false, is_making_ = false, is_leaving_ = false;
  uint64_t ended_ = 0;             // attempts to make a plan
  std::atomic<pid_t> process_{0};  // whose threads can work; not guarded
};

}  // namespace cudaep
