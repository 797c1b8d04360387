// Running one operation. The lock is released while kernels, copies, callbacks and library work run.
#include <algorithm>
#include <cstring>

#include "core/strings.h"
#include "device/sim/block_executor.h"
#include "device/sim/random.h"
#include "device/sim/simulator.h"

namespace cudaep::device::sim {
namespace {

// Of a larger block that ends both ends are overwritten: arenas hand out far more than tests touch.
constexpr size_t kOverwrittenBytes = size_t{1} << 20;

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

BlockExecutor::LaunchedKernel LaunchOf(const KernelWork& work) {
  return {work.kernel, work.signature, work.arguments.get(), &work.config};
}

// Of the numbers that a launch is given, and of its addresses no more than how they are aligned.
uint64_t LikenessOf(const KernelWork& kernel, const std::vector<Access>& accesses) {
  constexpr uint64_t kAlignment = 256;
  const Extent &grid = kernel.config.grid, &block = kernel.config.block;
  uint64_t likeness = kernel.config.shared_bytes;
  for (const uint64_t size : {grid.x, grid.y, grid.z, block.x, block.y, block.z}) {
    likeness = NextRandom(&likeness) ^ size;
  }
  for (size_t at = 0; at < kernel.signature->bytes; at += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, kernel.arguments.get() + at, std::min(sizeof(word), kernel.signature->bytes - at));
    const auto is_it = [word](const Access& access) { return access.begin == word; };
    if (std::any_of(accesses.begin(), accesses.end(), is_it)) word %= kAlignment;
    likeness = NextRandom(&likeness) ^ word;
  }
  return likeness;
}

// Callbacks and library work must not call back into the device interface.
template <class F>
void RunForeign(Lock& lock, F&& run) {
  lock.unlock();
  CurrentThread().in_callback = true;
  run();
  CurrentThread().in_callback = false;
  lock.lock();
}

}  // namespace

Actor Work::ActorOn(uint32_t stream) const {
  const auto what = std::visit(
      Overloaded{[](const KernelWork&) { return "a kernel"; }, [](const CopyWork&) { return "a copy"; },
                 [](const FillWork&) { return "a memset"; }, [](const CallbackWork&) { return "a host callback"; },
                 [](const LibraryWork&) { return "a library call"; },
                 [](const EventMark&) { return "an event record"; }, [](const EventWait&) { return "an event wait"; },
                 [](const AllocateWork&) { return "a stream-ordered allocation"; },
                 [](const FreeWork&) { return "a stream-ordered free"; },
                 [](const OverwriteWork&) { return "the end of a block"; }, [](const GraphWork&) { return "a graph"; }},
      payload);
  const auto* kernel = As<KernelWork>();
  return {kernel != nullptr ? kernel->kernel : nullptr, what, stream};
}

std::string Work::Describe() const {
  if (const auto* kernel = As<KernelWork>()) return StrCat("kernel ", KernelName(kernel->kernel));
  if (const auto* library = As<LibraryWork>()) return library->name;
  if (const auto* copy = As<CopyWork>()) return StrCat("a copy of ", copy->bytes, " bytes");
  if (const auto* fill = As<FillWork>()) return StrCat("a memset of ", fill->bytes, " bytes");
  return ActorOn(0).what;
}

Status Simulator::Execute(Lock& lock, const Work& work, const QueuedWork& item, const std::shared_ptr<const Work>& next,
                          uint64_t graph_node) {
  CUDAEP_RETURN_IF_ERROR(CheckPointers(work, Moment::kExecution));
  const bool computes = work.As<KernelWork>() != nullptr || work.As<LibraryWork>() != nullptr;
  if (computes && ++kernels_run_ == config.lose_at_kernel) {
    return Status(StatusCode::kDeviceError, StrCat(work.Describe(), " is number ", kernels_run_,
                                                   ": CUDAEP_SIM_LOSE_DEVICE_AT asks for a failure"));
  }
  for (const Access& access : work.accesses) {
    if (!access.write) continue;
    Heap* heap = HeapOf(access.begin);
    if (Allocation* allocation = heap->Find(access.begin)) allocation->last_writer = work.ActorOn(item.stream);
  }
  const uint64_t begin_ns = observer == nullptr ? 0 : ActivityClock();
  Status status = RunPayload(lock, work, item, next);
  if (begin_ns != 0 && observer != nullptr) TellObserver(work, item, graph_node, begin_ns);
  if (status.ok()) status = CheckRedZonesOf(work);
  if (status.ok() || work.As<GraphWork>()) return status;
  return std::move(status).WithContext(work.Describe());
}

Status Simulator::RunKernel(Lock& lock, const KernelWork& kernel, const Work* next) {
  const KernelWork* dependent = next != nullptr ? next->As<KernelWork>() : nullptr;
  const LibraryWork* library = next != nullptr ? next->As<LibraryWork>() : nullptr;
  const bool may_begin =
      (dependent != nullptr && dependent->config.programmatic) || (library != nullptr && library->ahead != nullptr);
  const bool begins = config.dependents_ahead && may_begin && CheckPointers(*next, Moment::kExecution).ok();
  if (begins && library != nullptr) RunForeign(lock, library->ahead);
  lock.unlock();
  if (begins && dependent != nullptr) {
    BlockExecutor::RunAhead(LaunchOf(kernel), LaunchOf(*dependent), LikenessOf(*dependent, next->accesses));
  }
  Status result = BlockExecutor::Run(LaunchOf(kernel));
  lock.lock();
  return result;
}

Status Simulator::RunPayload(Lock& lock, const Work& work, const QueuedWork& item,
                             const std::shared_ptr<const Work>& next) {
  return std::visit(
      Overloaded{[&](const KernelWork& kernel) { return RunKernel(lock, kernel, next.get()); },
                 [&](const CopyWork& copy) {
                   lock.unlock();
                   const void* source = copy.snapshot != nullptr ? copy.snapshot.get() : copy.source;
                   std::memmove(copy.destination, source, copy.bytes);
                   lock.lock();
                   return Status::Ok();
                 },
                 [&](const FillWork& fill) {
                   lock.unlock();
                   std::memset(fill.destination, fill.value, fill.bytes);
                   lock.lock();
                   return Status::Ok();
                 },
                 [&](const CallbackWork& callback) {
                   host_clock.Join(item.clock);  // the callback can tell any thread that what precedes it is done
                   RunForeign(lock, [&] {
                     const MemoryRights none(false);
                     callback.function(callback.state);
                   });
                   return Status::Ok();
                 },
                 [&](const LibraryWork& library) {
                   if (library.run != nullptr) RunForeign(lock, library.run);
                   return Status::Ok();
                 },
                 [&](const EventMark& mark) {
                   if (mark.event->timing) mark.event->reached = std::chrono::steady_clock::now();
                   mark.event->reached_generation = mark.generation;
                   return Status::Ok();
                 },
                 [&](const FreeWork& release) {
                   Heap* heap = HeapOf(release.allocation->begin);
                   Status zones = heap->CheckRedZone(*release.allocation);
                   accesses.Forget(release.allocation->begin, release.allocation->end());
                   const auto pool = release.allocation->pool;  // the release may forget the allocation
                   heap->Release(release.allocation, calls);
                   if (pool != nullptr) pool->Complete(heap, release.credit);
                   return zones;
                 },
                 [&](const OverwriteWork& block) {
                   accesses.blocks.EndQueued(block.begin, block.end);
                   Overwrite(block);
                   return Status::Ok();
                 },
                 [&](const GraphWork& graph) { return ExecuteGraph(lock, *graph.body, item); },
                 [](const EventWait&) { return Status::Ok(); }, [](const AllocateWork&) { return Status::Ok(); }},
      work.payload);
}

void Simulator::TellObserver(const Work& work, const QueuedWork& item, uint64_t graph_node, uint64_t begin_ns) const {
  Activity activity{.begin_ns = begin_ns,
                    .end_ns = ActivityClock(),
                    .scope = item.scope,
                    .call = item.call,
                    .graph_node = graph_node,
                    .ordinal = work.ordinal,
                    .stream = item.stream};
  if (const auto* kernel = work.As<KernelWork>()) {
    activity.kernel = reinterpret_cast<const void*>(kernel->kernel);
  } else if (const auto* library = work.As<LibraryWork>()) {
    activity.kind = Activity::Kind::kLibrary;
    activity.library_work = library->name;
  } else if (const auto* copy = work.As<CopyWork>()) {
    activity.kind = Activity::Kind::kCopy;
    activity.bytes = copy->bytes;
  } else if (const auto* fill = work.As<FillWork>()) {
    activity.kind = Activity::Kind::kFill;
    activity.bytes = fill->bytes;
  } else {
    return;
  }
  observer(activity);
}

// What a block that has ended held turns into NaN patterns, in its stream's order: whoever uses the memory now does so
// after that. ASan lets nobody in between live blocks and those that have ended but have work queued: memory is handed
// out again before the work of its last block has run, and may have been given back once more.
void Simulator::Overwrite(const OverwriteWork& block) {
  Heap* heap = HeapOf(block.begin);
  const Allocation* allocation = heap != nullptr ? heap->Find(block.begin) : nullptr;
  // The allocation itself may be gone, or its end may have moved.
  if (allocation == nullptr || allocation->state != Allocation::State::kLive) return;
  const uintptr_t end = std::min(block.end, allocation->end());
  if (block.begin >= end) return;
  auto* const memory = reinterpret_cast<unsigned char*>(block.begin);
  const size_t bytes = end - block.begin, head = std::min(bytes, kOverwrittenBytes);
  UnpoisonMemory(memory, bytes);
  std::memset(memory, kFreshByte, head);
  std::memset(memory + bytes - head, kFreshByte, head);
  accesses.blocks.ForEachGap(
      block.begin, end, [](uintptr_t from, uintptr_t to) { PoisonMemory(reinterpret_cast<void*>(from), to - from); });
  accesses.blocks.ForEachQueued(
      block.begin, end, [](uintptr_t from, uintptr_t to) { UnpoisonMemory(reinterpret_cast<void*>(from), to - from); });
}

// Without anything queued it happens at once, so that an idle stream stays idle.
void Simulator::OverwriteBlock(Lock& lock, StreamHandle* stream, const Block& block) {
  const OverwriteWork work{block.begin, block.end};
  OrderWithLegacy(stream);
  if (stream->completed == stream->submitted) return Overwrite(work);
  if (!devices[static_cast<size_t>(stream->ordinal)].lost.ok()) return;
  if (kAddressSanitizer) accesses.blocks.AddQueued(work.begin, work.end);
  Enqueue(lock, stream, std::make_shared<const Work>(Work{work, stream->ordinal, {}}), Clock());
}

// Any order that respects the dependencies is right; random mode draws one for each launch.
Status Simulator::ExecuteGraph(Lock& lock, const GraphBody& body, const QueuedWork& item) {
  std::vector<uint32_t> pending(body.nodes.size()), ready;
  std::vector<std::vector<uint32_t>> successors(body.nodes.size());
  for (uint32_t i = 0; i < body.nodes.size(); ++i) {
    pending[i] = static_cast<uint32_t>(body.nodes[i].dependencies.size());
    for (uint32_t before : body.nodes[i].dependencies) successors[before].push_back(i);
    if (pending[i] == 0) ready.push_back(i);
  }
  while (!ready.empty()) {
    const size_t choice = config.mode == Mode::kRandom ? NextRandom(&random_) % ready.size() : 0;
    const uint32_t node = ready[choice];
    ready.erase(ready.begin() + static_cast<ptrdiff_t>(choice));
    std::shared_ptr<const Work> next;
    for (uint32_t after : successors[node]) {
      if (pending[after] == 1 && next == nullptr) next = body.nodes[after].work;
    }
    CUDAEP_RETURN_IF_ERROR(Execute(lock, *body.nodes[node].work, item, next, node + 1));
    for (uint32_t after : successors[node]) {
      if (--pending[after] == 0) ready.push_back(after);
    }
  }
  return Status::Ok();
}

Status Simulator::CheckRedZonesOf(const Work& work) {
  for (const Access& access : work.accesses) {
    Heap* heap = HeapOf(access.begin);
    const Allocation* allocation = heap != nullptr && access.write ? heap->Find(access.begin) : nullptr;
    if (allocation == nullptr || allocation->state == Allocation::State::kFreed) continue;
    CUDAEP_RETURN_IF_ERROR(heap->CheckRedZone(*allocation));
  }
  return Status::Ok();
}

}  // namespace cudaep::device::sim
