// Submission of work: the checks of its pointers, capture or queue, and the kernels' side of both.
#include <cstring>

#include "core/strings.h"
#include "device/launch.h"
#include "device/occupancy.h"
#include "device/sim/simulator.h"

namespace cudaep::device::sim {
namespace {

constexpr size_t kMaxSharedBytes = size_t{227} << 10;  // as on compute capability 9.0

Status CheckLaunch(const LaunchConfig& config) {
  const Extent &grid = config.grid, &block = config.block, &cluster = config.cluster;
  const auto text = [](const Extent& extent) { return StrCat("(", extent.x, ",", extent.y, ",", extent.z, ")"); };
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > BlockExecutor::kMaxThreads || block.z > 64) {
    return InvalidArgument("a block of ", text(block), " threads cannot be launched: 1 to 1024, at most 64 in z");
  }
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535) {
    return InvalidArgument("a grid of ", text(grid), " blocks cannot be launched: 1 to 2147483647 x 65535 x 65535");
  }
  if (config.shared_bytes > kMaxSharedBytes) {
    return InvalidArgument(config.shared_bytes, " bytes of dynamic shared memory are more than ", kMaxSharedBytes);
  }
  const uint64_t cluster_blocks = uint64_t{cluster.x} * cluster.y * cluster.z;
  if (cluster_blocks == 0 || cluster_blocks > 16 || grid.x % cluster.x != 0 || grid.y % cluster.y != 0 ||
      grid.z % cluster.z != 0) {
    return InvalidArgument("a cluster of ", text(cluster), " does not divide a grid of ", text(grid), " or exceeds 16");
  }
  return Status::Ok();
}

// CUDA refuses kernels, unlike copies, on a stream of another device than the current one.
Status CheckCurrentDevice(const StreamHandle& stream) {
  const int current = CurrentThread().ordinal;
  if (stream.ordinal == current) return Status::Ok();
  return InvalidArgument("a launch on a stream of device ", stream.ordinal, " while device ", current, " is current");
}

// Device addresses among the bytes of a struct. What points nowhere is taken for data.
void ScanStruct(Simulator& simulator, const std::byte* bytes, size_t count, bool write, std::vector<Access>* out) {
  for (size_t at = 0; at + sizeof(uintptr_t) <= count; at += sizeof(uintptr_t)) {
    uintptr_t word = 0;
    std::memcpy(&word, bytes + at, sizeof(word));
    Heap* heap = simulator.HeapOf(word);
    if (heap != nullptr && heap->Find(word) != nullptr) out->push_back({word, 0, write, false});
  }
}

}  // namespace

Status SubmitKernel(AnyKernel kernel, const KernelSignature& signature, const std::byte* arguments,
                    const LaunchConfig& config, Stream stream) {
  Simulator& simulator = Simulator::Get();
  Lock lock = simulator.Acquire();
  CUDAEP_ASSIGN_OR_RETURN(StreamHandle * target, simulator.EnterStream(CallKind::kLaunch, stream));
  if (Status status = CheckLaunch(config); !status.ok()) {
    return std::move(status).WithContext(StrCat("kernel ", KernelName(kernel)));
  }
  CUDAEP_RETURN_IF_ERROR(CheckCurrentDevice(*target));
  KernelWork work{kernel, &signature, config, std::make_unique_for_overwrite<std::byte[]>(signature.bytes + 1)};
  std::memcpy(work.arguments.get(), arguments, signature.bytes);
  std::vector<Access> accesses;
  accesses.reserve(signature.arguments.size());
  for (const ArgumentInfo& info : signature.arguments) {
    const bool write = info.kind == ArgumentKind::kWrite || info.kind == ArgumentKind::kStructWrite;
    if (info.kind == ArgumentKind::kRead || info.kind == ArgumentKind::kWrite) {
      uintptr_t address = 0;
      std::memcpy(&address, arguments + info.offset, sizeof(address));
      if (address != 0) accesses.push_back({address, 0, write, true});
    } else if (info.kind != ArgumentKind::kValue) {
      ScanStruct(simulator, arguments + info.offset, info.bytes, write, &accesses);
    }
  }
  return simulator.Submit(lock, target, Work{std::move(work), target->ordinal, std::move(accesses)});
}

namespace {

Status SubmitLibraryWork(Stream stream, LibraryWork work, std::span<const void* const> reads,
                         std::span<void* const> writes) {
  Simulator& simulator = Simulator::Get();
  Lock lock = simulator.Acquire();
  CUDAEP_ASSIGN_OR_RETURN(StreamHandle * target, simulator.EnterStream(CallKind::kHostWork, stream));
  CUDAEP_RETURN_IF_ERROR(CheckCurrentDevice(*target));
  if (work.attempt != nullptr && target->capture != nullptr) {
    return FailedPrecondition(work.name, " cannot be captured into a graph");
  }
  std::vector<Access> accesses;
  for (const void* pointer : reads) {
    if (pointer != nullptr) accesses.push_back({reinterpret_cast<uintptr_t>(pointer), 0, false, true});
  }
  for (void* pointer : writes) {
    if (pointer != nullptr) accesses.push_back({reinterpret_cast<uintptr_t>(pointer), 0, true, true});
  }
  return simulator.Submit(lock, target, Work{std::move(work), target->ordinal, std::move(accesses)});
}

}  // namespace

Status EnqueueHostWork(Stream stream, std::string name, std::function<void()> work, std::span<const void* const> reads,
                       std::span<void* const> writes, std::function<void()> ahead) {
  return SubmitLibraryWork(stream, {std::move(name), std::move(work), nullptr, std::move(ahead)}, reads, writes);
}

Status EnqueueSharedWork(Stream stream, std::string name, std::function<bool()> attempt,
                         std::span<const void* const> reads, std::span<void* const> writes) {
  return SubmitLibraryWork(stream, {std::move(name), nullptr, std::move(attempt), nullptr}, reads, writes);
}

Status Simulator::CheckPointers(const Work& work, Moment moment) {
  for (const Access& access : work.accesses) {
    const auto* pointer = reinterpret_cast<const void*>(access.begin);
    Heap* heap = HeapOf(access.begin);
    const Allocation* allocation = heap != nullptr ? heap->Find(access.begin) : nullptr;
    const auto error = [&](const auto&... text) {
      return Status(StatusCode::kDeviceError, StrCat(work.Describe(), ": ", text...));
    };
    if (heap == nullptr) {
      return error("the pointer ", pointer, " is neither device memory nor pinned memory");
    }
    if (allocation == nullptr) {
      if (!access.declared) continue;
      return error("the pointer ", pointer, " belongs to no allocation");
    }
    // What was submitted before a stream-ordered free may still run before it.
    const bool freed = moment == Moment::kSubmission ? allocation->state != Allocation::State::kLive
                                                     : allocation->state == Allocation::State::kFreed;
    if (freed) {
      // A scanned word inside freed memory may be an integer; one that is exactly its start is not.
      if (!access.declared && access.begin != allocation->begin) continue;
      return error("use after free of ", allocation->Describe());
    }
    const int ordinal = OrdinalOf(access.begin);
    const bool copies = work.As<CopyWork>() != nullptr;
    if (ordinal >= 0 && ordinal != work.ordinal && !copies &&
        !devices[static_cast<size_t>(work.ordinal)].peers.contains(ordinal)) {
      return error("wrong device: runs on device ", work.ordinal, " with memory of device ", ordinal, ", ",
                   allocation->Describe());
    }
    if (access.begin < allocation->begin || access.begin > allocation->end()) {
      if (!access.declared) continue;
      return error("the pointer ", pointer, " lies outside of ", allocation->Describe());
    }
    if (access.bytes > allocation->end() - access.begin) {
      return error(access.bytes - (allocation->end() - access.begin), " bytes too many for ", allocation->Describe());
    }
  }
  return Status::Ok();
}

// What lies in a divided allocation must lie in a live block, and learns where that ends. A graph's work did when it
// was captured; what has ended since may stay reserved for it.
Status Simulator::CheckBlocks(Work* work) {
  if (work->As<GraphWork>() || work->As<AllocateWork>() || work->As<FreeWork>()) return Status::Ok();
  for (Access& access : work->accesses) {
    Heap* heap = HeapOf(access.begin);
    const Allocation* allocation = heap != nullptr ? heap->Find(access.begin) : nullptr;
    if (allocation == nullptr || !allocation->divided) continue;
    const Block* block = accesses.blocks.Find(access.begin);
    if (block == nullptr) {
      const Block* ended = accesses.blocks.FindEnded(access.begin);
      // A scanned word may be an integer; one that is exactly a block's start is not.
      if (!access.declared && (ended == nullptr || ended->begin != access.begin)) continue;
      const std::string what = ended != nullptr
                                   ? StrCat("use after the end of ", ended->Describe())
                                   : StrCat("the pointer ", reinterpret_cast<void*>(access.begin), " lies in no block");
      return Status(StatusCode::kDeviceError, StrCat(work->Describe(), ": ", what, " of ", allocation->Describe()));
    }
    if (access.bytes > block->end - access.begin) {
      return Status(StatusCode::kDeviceError,
                    StrCat(work->Describe(), ": ", access.bytes - (block->end - access.begin), " bytes too many for ",
                           block->Describe(), " of ", allocation->Describe()));
    }
    access.block_end = block->end;
    access.block_begin = accesses.blocks.OutermostOf(*block).begin;
  }
  return Status::Ok();
}

Status Simulator::Submit(Lock& lock, StreamHandle* stream, Work work) {
  if (only_stream != nullptr && stream != only_stream) {
    return FailedPrecondition(work.Describe(), " was given stream ", stream->id, "; only stream ", only_stream->id,
                              " may be used here");
  }
  if (stream->capture != nullptr && !stream->capture->invalid.empty()) return stream->capture->InvalidError();
  CUDAEP_RETURN_IF_ERROR(CheckPointers(work, Moment::kSubmission));
  CUDAEP_RETURN_IF_ERROR(CheckBlocks(&work));
  auto shared = std::make_shared<const Work>(std::move(work));
  if (stream->capture != nullptr) {
    for (const Access& access : shared->accesses) accesses.blocks.MarkCaptured(access.begin);
    return stream->capture->Add(stream, std::move(shared));
  }
  const Actor actor = shared->ActorOn(stream->id);
  for (const Access& access : shared->accesses) {
    CUDAEP_RETURN_IF_ERROR(accesses.Check(access, actor, *stream, host_clock));
  }
  for (const Access& access : shared->accesses) {
    accesses.Record(access, actor, *stream, stream->submitted + 1, host_clock);
  }
  CountWork(*shared, stream);
  Clock known;  // what the host may conclude from a callback
  if (shared->As<CallbackWork>() || shared->As<GraphWork>()) {
    known = stream->clock;
    known.Reach(stream->slot, stream->submitted + 1);
  }
  Enqueue(lock, stream, std::move(shared), std::move(known));
  return Status::Ok();
}

void Simulator::CountWork(const Work& work, StreamHandle* stream) {
  if (const auto* graph = work.As<GraphWork>()) {
    ++stream->counters.graph_launches;
    ++devices[static_cast<size_t>(stream->ordinal)].counters.graph_launches;
    for (const GraphNode& node : graph->body->nodes) CountWork(*node.work, stream);
    return;
  }
  for (Counters* counters : {&stream->counters, &devices[static_cast<size_t>(stream->ordinal)].counters}) {
    if (work.As<KernelWork>()) ++counters->launches;
    if (work.As<LibraryWork>()) ++counters->host_work;
    if (work.As<CallbackWork>()) ++counters->host_callbacks;
    if (work.As<EventMark>()) ++counters->event_records;
    if (work.As<EventWait>()) ++counters->event_waits;
    if (work.As<AllocateWork>()) ++counters->async_allocations;
    if (work.As<FreeWork>()) ++counters->async_frees;
    if (const auto* fill = work.As<FillWork>()) {
      ++counters->memsets;
      counters->memset_bytes += fill->bytes;
    }
    const auto* copy = work.As<CopyWork>();
    if (copy == nullptr) continue;
    switch (copy->direction) {
      case Direction::kHostToDevice:
        ++counters->host_to_device;
        counters->host_to_device_bytes += copy->bytes;
        break;
      case Direction::kDeviceToHost:
        ++counters->device_to_host;
        counters->device_to_host_bytes += copy->bytes;
        break;
      case Direction::kDeviceToDevice:
        ++counters->device_to_device;
        counters->device_to_device_bytes += copy->bytes;
        break;
      case Direction::kHostToHost:
        break;
    }
  }
}

}  // namespace cudaep::device::sim

namespace cudaep::device {

Status MaxActiveClusters(const void*, const LaunchConfig& config, int* count) {
  const Extent& cluster = config.cluster;
  *count = cluster.x == 1 && cluster.y == 1 && cluster.z == 1 ? 1 : 0;
  return Status::Ok();
}

}  // namespace cudaep::device
