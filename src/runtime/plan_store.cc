#include "runtime/plan_store.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <new>
#include <utility>

#include "core/condition.h"
#include "core/log.h"
#include "core/strings.h"
#include "device/device.h"
#include "device/device_info.h"

namespace cudaep {
namespace {

using Clock = std::chrono::steady_clock;

// A plan that takes longer is written to the file at once, so that it is not lost with the process.
constexpr int64_t kDearUs = 20'000;
constexpr std::chrono::seconds kLongestExit{10};

int64_t MicrosecondsSince(Clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start).count();
}

// What a plan in a file depends on beside the problem.
std::string FileKey(const PlanStore::Request& request) {
  const auto info = device::GetDeviceInfo(request.ordinal);
  const std::string_view name = info.ok() ? std::string_view(info.value()->name) : std::string_view("no device");
  return StrCat(name, " driver ", device::DriverVersion(), " runtime ", device::RuntimeVersion(), '|', request.library,
                '|', request.problem);
}

void PutPlan(PlanFile* file, const std::string& file_key, const lib::Plan& plan) {
  Result<std::string> saved = plan.Save();
  file->Put(file_key, saved.ok() ? std::move(saved).value() : plan.choice());
}

}  // namespace

Status PlanSlot::Replace(LibraryPlanPtr plan) {
  std::lock_guard lock(mutex_);
  // Some holders prepared for the first plan, some for the one in use, which needs and leaves no more.
  const lib::Plan& current = *kept_.back();
  const bool leaves_other = !plan->remaining().empty() && plan->remaining() != current.remaining();
  if (plan->workspace_bytes() > current.workspace_bytes() || leaves_other) {
    return FailedPrecondition("the plan ", plan->choice(), " needs other preparations than the one in use");
  }
  kept_.push_back(std::move(plan));
  current_.store(kept_.back().get(), std::memory_order_release);
  return Status::Ok();
}

PlanStore& PlanStore::Process() {
  static auto* const store = new PlanStore;
  return *store;
}

std::shared_ptr<PlanStore::Entry> PlanStore::FindOrAdd(Shard& shard, const std::string& key, bool* added) {
  std::lock_guard lock(shard.mutex);
  const auto found = shard.entries.find(key);
  *added = found == shard.entries.end();
  if (!*added) return found->second;
  auto fresh = std::make_shared<Entry>();
  shard.entries.emplace(key, fresh);
  if (shard.entries.size() > kMostPlans / kShards) DropOldest(shard);
  return fresh;
}

// The caller holds the shard's lock.
void PlanStore::DropOldest(Shard& shard) {
  auto oldest = shard.entries.end();
  for (auto it = shard.entries.begin(); it != shard.entries.end(); ++it) {
    Entry& entry = *it->second;
    if (it->second.use_count() != 1) continue;  // somebody builds it or waits for it
    std::lock_guard lock(entry.mutex);
    if (entry.building || entry.slot.use_count() > 1) continue;
    if (oldest == shard.entries.end() || entry.last_use < oldest->second->last_use) oldest = it;
  }
  if (oldest == shard.entries.end()) return;
  shard.entries.erase(oldest);
  dropped_.fetch_add(1, std::memory_order_relaxed);
}

Result<PlanSlotPtr> PlanStore::Get(const Request& request, const Make& make) {
  const std::string key = StrCat(request.ordinal, '|', request.library, '|', request.problem);
  Shard& shard = shards_[std::hash<std::string>()(key) % kShards];
  bool added = false;
  const std::shared_ptr<Entry> entry = FindOrAdd(shard, key, &added);
  entry->last_use = clock_.fetch_add(1, std::memory_order_relaxed);
  if (!added) {
    found_.fetch_add(1, std::memory_order_relaxed);
    Result<PlanSlotPtr> slot = WaitFor(*entry, request);
    // Null after an exception: whoever built has taken the entry out before it said so.
    return slot.ok() && *slot == nullptr ? Get(request, make) : std::move(slot);
  }
  // Ends the wait of the others, whatever happens here.
  struct Outcome {
    PlanStore& store;
    Shard& shard;
    const std::string& key;
    const std::shared_ptr<Entry>& entry;
    bool keep = false;
    ~Outcome() {
      if (!keep) store.DropEntry(shard, key, entry);
      {
        std::lock_guard lock(entry->mutex);
        entry->building = false;
      }
      entry->done.notify_all();
    }
  } outcome{*this, shard, key, entry};
  Result<LibraryPlanPtr> plan = Build(request, make);
  std::lock_guard lock(entry->mutex);
  if (!plan.ok()) {
    entry->failure = plan.status();
    outcome.keep = plan.status().code() == StatusCode::kNotSupported;
    return std::move(plan).status();
  }
  entry->files.emplace_back(request.file);
  entry->slot = std::make_shared<PlanSlot>(*plan);
  outcome.keep = true;
  return entry->slot;
}

void PlanStore::DropEntry(Shard& shard, const std::string& key, const std::shared_ptr<Entry>& entry) {
  std::lock_guard lock(shard.mutex);
  const auto found = shard.entries.find(key);
  if (found != shard.entries.end() && found->second == entry) shard.entries.erase(found);
}

// Null when there is neither a plan nor a failure.
Result<PlanSlotPtr> PlanStore::WaitFor(Entry& entry, const Request& request) {
  std::unique_lock lock(entry.mutex);
  WaitUntil(entry.done, lock, [&] { return !entry.building; });
  if (!entry.failure.ok()) return entry.failure;
  PlanSlotPtr slot = entry.slot;
  auto& files = entry.files;
  if (slot == nullptr || request.file.empty()) return slot;
  if (std::find(files.begin(), files.end(), request.file) != files.end()) return slot;
  files.emplace_back(request.file);
  lock.unlock();
  PlanFile* const file = FileAt(request.file);
  const std::string file_key = FileKey(request);
  if (file->Find(file_key).empty()) PutPlan(file, file_key, *slot->first_);
  return slot;
}

Result<LibraryPlanPtr> PlanStore::Build(const Request& request, const Make& make) {
  PlanFile* const file = FileAt(request.file);
  const std::string file_key = file == nullptr ? std::string() : FileKey(request);
  if (file != nullptr) {
    const Clock::time_point start = Clock::now();
    const std::string saved = file->Find(file_key);
    if (!saved.empty()) {
      Result<LibraryPlanPtr> plan = make(saved);
      if (plan.ok()) {
        const int64_t us = MicrosecondsSince(start);
        loaded_.fetch_add(1, std::memory_order_relaxed);
        load_us_.fetch_add(static_cast<uint64_t>(us), std::memory_order_relaxed);
        Log(LogLevel::kVerbose, "plan loaded in ", us, " us: ", request.problem);
        return plan;
      }
      if (plan.status().code() == StatusCode::kDeviceLost) return plan;
      Log(LogLevel::kInfo, "a saved plan does not load: ", request.problem, ": ", plan.status().message());
    }
  }
  const Clock::time_point start = Clock::now();
  Result<LibraryPlanPtr> plan = make({});
  const int64_t us = MicrosecondsSince(start);
  if (!plan.ok()) return plan;
  built_.fetch_add(1, std::memory_order_relaxed);
  build_us_.fetch_add(static_cast<uint64_t>(us), std::memory_order_relaxed);
  Log(LogLevel::kVerbose, "plan built in ", us, " us: ", request.problem, ": ", (*plan)->choice());
  if (file == nullptr) return plan;
  PutPlan(file, file_key, **plan);
  // The first is written at once too, so that a place where nothing can be kept is told while the host listens.
  if (us >= kDearUs || !file->was_saved()) file->SaveOrLog();
  return plan;
}

PlanFile* PlanStore::FileAt(std::string_view path) {
  if (path.empty()) return nullptr;
  std::lock_guard lock(files_mutex_);
  auto& file = files_[std::string(path)];
  if (file == nullptr) file = std::make_unique<PlanFile>(std::string(path));
  return file.get();
}

Status PlanStore::ReplaceInBackground(PlanSlotPtr slot, Make make) {
  using Progress = PlanSlot::Progress;
  Progress before = Progress::kIdle;
  if (!slot->progress_.compare_exchange_strong(before, Progress::kMaking)) return Status::Ok();
  std::lock_guard lock(background_mutex_);
  if (is_leaving_) {
    slot->progress_ = PlanSlot::Progress::kIdle;
    return Status(StatusCode::kNotReady, "the process exits");
  }
  Replacement replacement{std::move(slot), std::move(make)};
  PlanSlot& waiting = *replacement.slot;
  // Idle before a message is made, which needs memory too.
  try {
    replacements_.push_back(std::move(replacement));
  } catch (const std::bad_alloc&) {
    waiting.progress_ = Progress::kIdle;
    return OutOfMemory("no host memory to make a plan in the background");
  }
  if (is_working_) return Status::Ok();
  try {
    if (worker_.joinable()) worker_.join();
    process_ = ::getpid();
    worker_ = std::thread([this] { Work(); });
  } catch (const std::exception& error) {  // std::system_error, std::bad_alloc
    waiting.progress_ = Progress::kIdle;
    replacements_.pop_back();
    return Status(StatusCode::kNotReady, StrCat("no thread to make a plan in the background: ", error.what()));
  }
  is_working_ = true;
  return Status::Ok();
}

// On the worker.
void PlanStore::Work() {
  int untold = 0;
  const auto tell = [&] {
    if (std::exchange(untold, 0) != 0) replacement_count_.fetch_add(1, std::memory_order_release);
  };
  for (;;) {
    Replacement next;
    {
      std::lock_guard lock(background_mutex_);
      ended_ += std::exchange(is_making_, !replacements_.empty()) ? 1 : 0;
      background_done_.notify_all();
      if (replacements_.empty()) {
        tell();
        is_working_ = false;
        return;
      }
      next = std::move(replacements_.front());
      replacements_.pop_front();
    }
    untold += Run(std::move(next)) ? 1 : 0;
    StopBeforeExit();
    if (untold == kMostUntold) tell();
  }
}

// For a process that exits with a session: handlers run in the reverse order of their registration, as do the
// destructors of statics, so that one registered after a plan was made runs before those of what the library has made
// for the first time with it, its compiler included. Not protected is what the plan in the making is the first to need.
void PlanStore::StopBeforeExit() {
  if (this == &Process()) static_cast<void>(std::atexit([] { Process().LeaveProcess(); }));
}

// An exit does not wait for ever: a device that hangs may hold the plan.
void PlanStore::LeaveProcess() {
  if (process_ != ::getpid()) return;
  std::list<Replacement> dropped;  // destroyed outside the lock
  std::unique_lock lock(background_mutex_);
  is_leaving_ = true;
  dropped = TakeReplacements();
  if (!background_done_.wait_for(lock, kLongestExit, [&] { return !is_working_; })) return;
  if (worker_.joinable()) worker_.join();
}

bool PlanStore::Run(Replacement replacement) {
  PlanSlot& slot = *replacement.slot;
  auto after = PlanSlot::Progress::kIdle;
  bool has_replaced = false;
  try {
    Result<LibraryPlanPtr> plan = replacement.make({});
    const bool is_made = plan.ok();
    const Status status = is_made ? slot.Replace(std::move(plan).value()) : std::move(plan).status();
    has_replaced = status.ok();
    if (!status.ok() && (is_made || status.code() == StatusCode::kNotSupported)) after = PlanSlot::Progress::kRefused;
    if (!status.ok()) Log(LogLevel::kInfo, "no plan took the place of ", slot.plan().choice(), ": ", status.message());
  } catch (...) {  // std::bad_alloc, which a message would need memory for as well
  }
  replacement.make = nullptr;
  slot.progress_ = after;
  return has_replaced;
}

void PlanStore::WaitForBackground() {
  std::unique_lock lock(background_mutex_);
  WaitUntil(background_done_, lock, [&] { return !is_working_; });
  // The worker needs the lock no more.
  if (worker_.joinable()) worker_.join();
}

// The caller holds the lock. Takes no memory: destructors call it.
std::list<PlanStore::Replacement> PlanStore::TakeReplacements() {
  std::list<Replacement> taken;
  taken.swap(replacements_);
  for (const Replacement& replacement : taken) replacement.slot->progress_ = PlanSlot::Progress::kIdle;
  return taken;
}

void PlanStore::StopBackground() {
  if (process_ != ::getpid()) return;
  {
    std::list<Replacement> dropped;  // destroyed outside the lock
    std::lock_guard lock(background_mutex_);
    dropped = TakeReplacements();
  }
  WaitForBackground();
}

void PlanStore::DropBackground() {
  if (process_ != ::getpid()) return;
  std::list<Replacement> dropped;  // destroyed outside the lock
  std::unique_lock lock(background_mutex_);
  dropped = TakeReplacements();
  WaitUntil(background_done_, lock, [&, ended = ended_] { return !is_making_ || ended_ != ended; });
}

Status PlanStore::Save() {
  std::lock_guard lock(files_mutex_);
  Status first;
  for (auto& [path, file] : files_) {
    Status status = file->Save();
    if (!status.ok() && first.ok()) first = std::move(status);
  }
  return first;
}

PlanStore::Statistics PlanStore::statistics() {
  Statistics now{.built = built_,
                 .loaded = loaded_,
                 .found = found_,
                 .dropped = dropped_,
                 .build_us = build_us_,
                 .load_us = load_us_,
                 .replacements = replacements()};
  for (Shard& shard : shards_) {
    std::lock_guard lock(shard.mutex);
    now.plans += shard.entries.size();
  }
  std::lock_guard lock(background_mutex_);
  now.in_background = replacements_.size() + (is_making_ ? 1 : 0);
  return now;
}

void PlanStore::Clear() {
  for (Shard& shard : shards_) {
    std::lock_guard lock(shard.mutex);
    std::erase_if(shard.entries, [](const auto& item) {
      if (item.second.use_count() != 1) return false;
      std::lock_guard entry_lock(item.second->mutex);
      return !item.second->building && item.second->slot.use_count() <= 1;
    });
  }
  std::lock_guard lock(files_mutex_);
  files_.clear();
}

}  // namespace cudaep
