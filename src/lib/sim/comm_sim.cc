// Collectives of the simulated device: every rank posts what it has into shared memory and takes what it needs.
#include <algorithm>
#include <cstring>
#include <mutex>
#include <random>

#include "core/strings.h"
#include "device/sim/sim.h"
#include "lib/comm.h"
#include "lib/sim/host_reduce.h"
#include "lib/sim/shared_ranks.h"

namespace cudaep::comm {
namespace {

using Clock = std::chrono::steady_clock;

enum class Operation : uint8_t { kAllReduce, kReduceScatter, kAllGather, kAllToAll };
constexpr std::string_view kOperationNames[] = {"AllReduce", "ReduceScatter", "AllGather", "AllToAll"};
constexpr std::string_view kReductionNames[] = {"sum", "prod", "min", "max", "mean"};

std::string Describe(const Signature& signature) {
  const std::string_view name = kOperationNames[signature.operation];
  if (signature.type == 0) return StrCat(name, " of ", signature.elems, " bytes");
  return StrCat(name, " (", kReductionNames[signature.reduction], ") of ", signature.elems, ' ',
                DataTypeName(static_cast<DataType>(signature.type)));
}

// What queued operations share with the communicator, which may end before them.
class Group {
 public:
  Group(int rank, int size, std::chrono::seconds timeout) : rank_(rank), size_(size), timeout_(timeout) {}

  Status Open(const std::string& name) { return ranks_.Open(name, rank_, size_, Clock::now() + timeout_); }

  Status failure() const {
    std::lock_guard lock(mutex_);
    return failure_;
  }

  struct Call {
    uint64_t number = 0;
    Signature signature;
    const void* in = nullptr;
    void* out = nullptr;
    size_t bytes_in = 0;
    bool posted = false, done = false;
    Clock::time_point begin{};
  };

  // Whether the call is over, well or not. Calls follow each other also where they are on different streams.
  bool Attempt(Call& call) {
    if (call.done || !failure().ok()) return true;
    if (call.number != next_) return false;
    if (call.begin == Clock::time_point()) call.begin = Clock::now();
    const Status status = Advance(call);
    if (!status.ok()) {
      std::lock_guard lock(mutex_);
      failure_ = status;
    }
    if (call.done) ++next_;
    return call.done || !status.ok();
  }

 private:
  Status Advance(Call& call) {
    if (!call.posted) {
      bool free = true;
      CUDAEP_RETURN_IF_ERROR(AllHave(&SharedRanks::taken, call.number - 1, call, &free));
      if (!free) return Status::Ok();
      CUDAEP_RETURN_IF_ERROR(ranks_.Post(call.number, call.signature, call.in, call.bytes_in));
      call.posted = true;
    }
    bool ready = true;
    CUDAEP_RETURN_IF_ERROR(AllHave(&SharedRanks::posted, call.number, call, &ready));
    if (!ready) return Status::Ok();
    CUDAEP_RETURN_IF_ERROR(CheckSignatures(call));
    CUDAEP_RETURN_IF_ERROR(TakeParts(call));
    ranks_.Take(call.number);
    call.done = true;
    return Status::Ok();
  }

  Status AllHave(uint64_t (SharedRanks::*count)(int) const, uint64_t number, const Call& call, bool* all) const {
    std::string missing;
    for (int rank = 0; rank < size_; ++rank) {
      if ((ranks_.*count)(rank) >= number) continue;
      *all = false;
      if (ranks_.HasEnded(rank) && (ranks_.*count)(rank) < number) {
        return FailedPrecondition(Title(call), ": rank ", rank, " has ended");
      }
      missing += StrCat(missing.empty() ? "" : ", ", rank);
    }
    if (*all || Clock::now() - call.begin < timeout_) return Status::Ok();
    return FailedPrecondition(Title(call), ": after ", timeout_.count(), " s (collective_timeout_s) rank ", missing,
                              " has not come to it");
  }

  Status CheckSignatures(const Call& call) const {
    for (int rank = 0; rank < size_; ++rank) {
      if (ranks_.signature(rank) == call.signature) continue;
      return FailedPrecondition(Title(call), ": rank ", rank, " has ", Describe(ranks_.signature(rank)));
    }
    return Status::Ok();
  }

  Status TakeParts(const Call& call) {
    std::vector<const void*> parts;
    const size_t bytes = call.bytes_in / (IsSplit(call) ? static_cast<size_t>(size_) : 1);
    for (int rank = 0; rank < size_; ++rank) {
      CUDAEP_ASSIGN_OR_RETURN(const std::byte* data, ranks_.DataOf(rank));
      parts.push_back(data + (IsSplit(call) ? bytes * static_cast<size_t>(rank_) : 0));
    }
    if (call.signature.type != 0) {
      HostReduce(parts, call.out, static_cast<int64_t>(call.signature.elems),
                 static_cast<DataType>(call.signature.type), static_cast<Reduction>(call.signature.reduction));
      return Status::Ok();
    }
    auto* to = static_cast<std::byte*>(call.out);
    for (const void* part : parts) {
      std::memcpy(to, part, bytes);
      to += bytes;
    }
    return Status::Ok();
  }

  // Whether each rank takes a part of its own of what the others give.
  static bool IsSplit(const Call& call) {
    const auto operation = static_cast<Operation>(call.signature.operation);
    return operation == Operation::kReduceScatter || operation == Operation::kAllToAll;
  }

  std::string Title(const Call& call) const {
    return StrCat("operation ", call.number, " of rank ", rank_, " of ", size_, ", ", Describe(call.signature));
  }

  const int rank_, size_;
  const std::chrono::seconds timeout_;
  SharedRanks ranks_;  // used by attempts alone, which the device makes one at a time
  uint64_t next_ = 1;  // too
  mutable std::mutex mutex_;
  Status failure_;  // guarded by mutex_
};

class SharedMemoryCommunicator final : public Communicator {
 public:
  SharedMemoryCommunicator(int rank, int size, std::shared_ptr<Group> group)
      : Communicator(rank, size), group_(std::move(group)) {}

  Status AllReduce(const void* in, void* out, int64_t elems, DataType type, Reduction reduction,
                   device::Stream stream) override {
    return Queue(Reduced(Operation::kAllReduce, elems, type, reduction), in, out, SizeOf(type) * ToSize(elems), stream);
  }
  Status ReduceScatter(const void* in, void* out, int64_t elems, DataType type, Reduction reduction,
                       device::Stream stream) override {
    return Queue(Reduced(Operation::kReduceScatter, elems, type, reduction), in, out,
                 SizeOf(type) * ToSize(elems) * ToSize(size()), stream);
  }
  Status AllGather(const void* in, void* out, size_t bytes, device::Stream stream) override {
    return Queue(Moved(Operation::kAllGather, bytes), in, out, bytes, stream);
  }
  Status AllToAll(const void* in, void* out, size_t bytes, device::Stream stream) override {
    return Queue(Moved(Operation::kAllToAll, bytes), in, out, bytes * ToSize(size()), stream);
  }
  Status Check() const override { return group_->failure(); }

 private:
  static size_t ToSize(int64_t count) { return static_cast<size_t>(count); }
  static Signature Moved(Operation operation, size_t bytes) {
    return {.operation = static_cast<uint8_t>(operation), .elems = bytes};
  }
  static Signature Reduced(Operation operation, int64_t elems, DataType type, Reduction reduction) {
    return {static_cast<uint8_t>(operation), static_cast<uint8_t>(type), static_cast<uint8_t>(reduction),
            static_cast<uint64_t>(elems)};
  }

  Status Queue(const Signature& signature, const void* in, void* out, size_t bytes, device::Stream stream) {
    CUDAEP_RETURN_IF_ERROR(Check());
    auto call = std::make_shared<Group::Call>(
        Group::Call{.number = ++queued_, .signature = signature, .in = in, .out = out, .bytes_in = bytes});
    const void* reads[] = {in};
    void* writes[] = {out};
    Status queued = device::sim::EnqueueSharedWork(
        stream, Describe(signature), [group = group_, call] { return group->Attempt(*call); }, reads, writes);
    if (!queued.ok()) --queued_;
    return queued;
  }

  const std::shared_ptr<Group> group_;
  uint64_t queued_ = 0;
};

}  // namespace

Result<std::string> Version() { return std::string("shared memory (simulated)"); }

Result<UniqueId> MakeUniqueId() {
  std::random_device random;
  UniqueId id{};
  std::string name = "/ort-cuda-ep-";
  for (int i = 0; i < 16; ++i) name += "0123456789abcdef"[random() % 16];
  std::memcpy(id.data(), name.data(), name.size());
  return id;
}

Result<std::unique_ptr<Communicator>> Join(const UniqueId& id, int rank, int size, std::chrono::seconds timeout) {
  auto group = std::make_shared<Group>(rank, size, timeout);
  CUDAEP_RETURN_IF_ERROR(group->Open(reinterpret_cast<const char*>(id.data())));
  return std::unique_ptr<Communicator>(new SharedMemoryCommunicator(rank, size, std::move(group)));
}

}  // namespace cudaep::comm
