// Collectives by NCCL. Its communicators are made not to block, so that a call that waits for other ranks can be given
// up: NCCL then says that it is in progress, and whoever called asks until it no longer is.
#include <cstring>
#include <mutex>
#include <thread>

#include "core/strings.h"
#include "lib/comm.h"
#include "lib/cuda/nccl_api.h"
#include "lib/cuda/stream_watch.h"

namespace cudaep::comm {
namespace {

using Clock = std::chrono::steady_clock;
using nccl::Api;

// How long an operation that is on its way to the stream is waited for awake; longer waits are for other ranks.
constexpr auto kSpinTime = std::chrono::microseconds(500), kPollInterval = std::chrono::microseconds(50);
// For leaving together; others may have left in another way.
constexpr auto kLeaveTime = std::chrono::seconds(5);

nccl::Type TypeOf(DataType type) {
  switch (type) {
    case DataType::kInt8:
      return nccl::kInt8;
    case DataType::kUint8:
      return nccl::kUint8;
    case DataType::kInt32:
      return nccl::kInt32;
    case DataType::kUint32:
      return nccl::kUint32;
    case DataType::kInt64:
      return nccl::kInt64;
    case DataType::kUint64:
      return nccl::kUint64;
    case DataType::kFloat16:
      return nccl::kFloat16;
    case DataType::kBFloat16:
      return nccl::kBFloat16;
    case DataType::kDouble:
      return nccl::kFloat64;
    default:
      return nccl::kFloat32;
  }
}

nccl::Operator OperatorOf(Reduction reduction) {
  switch (reduction) {
    case Reduction::kSum:
      return nccl::kSum;
    case Reduction::kProduct:
      return nccl::kProduct;
    case Reduction::kMin:
      return nccl::kMin;
    case Reduction::kMax:
      return nccl::kMax;
    case Reduction::kMean:
      return nccl::kAverage;
  }
  return nccl::kSum;
}

bool IsError(nccl::Code code) { return code != nccl::kSuccess && code != nccl::kInProgress; }

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(const Api& api, int ordinal, int rank, int size, std::chrono::seconds timeout)
      : Communicator(rank, size),
        api_(api),
        timeout_(timeout),
        watch_(std::make_unique<StreamWatch>(
            ordinal, timeout, [this](const std::string& title) { GiveUp(Late(title)); },
            [this] { return LookForErrors(); })) {}

  ~NcclCommunicator() override {
    watch_.reset();
    const std::lock_guard lock(mutex_);
    if (comm_ == nullptr) return;
    const auto end = Clock::now() + kLeaveTime;
    const bool left = Settle(api_.ncclCommFinalize(comm_), "ncclCommFinalize", end).ok();
    static_cast<void>(left ? api_.ncclCommDestroy(comm_) : api_.ncclCommAbort(comm_));
  }

  Status Join(const UniqueId& id) {
    nccl::UniqueId unique{};
    std::memcpy(unique.bytes, id.data(), id.size());
    nccl::Config config;
    config.blocking = 0;
    const std::lock_guard lock(mutex_);
    const Status joined = Settle(api_.ncclCommInitRankConfig(&comm_, size(), unique, rank(), &config),
                                 "ncclCommInitRankConfig", Clock::now() + timeout_);
    if (!joined.ok()) Abort(joined);
    return joined;
  }

  Status AllReduce(const void* in, void* out, int64_t elems, DataType type, Reduction reduction,
                   device::Stream stream) override {
    return Queue("ncclAllReduce", stream, [&] {
      return api_.ncclAllReduce(in, out, static_cast<size_t>(elems), TypeOf(type), OperatorOf(reduction), comm_,
                                stream);
    });
  }
  Status ReduceScatter(const void* in, void* out, int64_t elems, DataType type, Reduction reduction,
                       device::Stream stream) override {
    return Queue("ncclReduceScatter", stream, [&] {
      return api_.ncclReduceScatter(in, out, static_cast<size_t>(elems), TypeOf(type), OperatorOf(reduction), comm_,
                                    stream);
    });
  }
  Status AllGather(const void* in, void* out, size_t bytes, device::Stream stream) override {
    return Queue("ncclAllGather", stream,
                 [&] { return api_.ncclAllGather(in, out, bytes, nccl::kUint8, comm_, stream); });
  }
  Status AllToAll(const void* in, void* out, size_t bytes, device::Stream stream) override {
    return Queue("ncclSend and ncclRecv", stream, [&] {
      nccl::Code code = api_.ncclGroupStart();
      if (IsError(code)) return code;
      for (int peer = 0; peer < size() && !IsError(code); ++peer) {
        const size_t offset = bytes * static_cast<size_t>(peer);
        code = api_.ncclSend(static_cast<const std::byte*>(in) + offset, bytes, nccl::kUint8, peer, comm_, stream);
        if (IsError(code)) break;
        code = api_.ncclRecv(static_cast<std::byte*>(out) + offset, bytes, nccl::kUint8, peer, comm_, stream);
      }
      const nccl::Code ended = api_.ncclGroupEnd();
      return IsError(code) ? code : ended;
    });
  }

  Status Check() const override {
    const std::lock_guard lock(mutex_);
    return failure_;
  }

 private:
  template <class F>
  Status Queue(const char* call, device::Stream stream, F&& queue) {
    {
      const std::lock_guard lock(mutex_);
      CUDAEP_RETURN_IF_ERROR(failure_);
      if (Status queued = Settle(queue(), call, Clock::now() + timeout_); !queued.ok()) {
        Abort(queued);
        return queued;
      }
    }
    return watch_->Add(call, stream);
  }

  // Until a call is no longer in progress.
  Status Settle(nccl::Code code, const char* call, Clock::time_point end) {
    for (const Clock::time_point begin = Clock::now(); code == nccl::kInProgress;) {
      const Clock::time_point now = Clock::now();
      if (now >= end) return Late(call);
      if (now - begin < kSpinTime) {
        std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(kPollInterval);
      }
      const nccl::Code asked = api_.ncclCommGetAsyncError(comm_, &code);
      if (asked != nccl::kSuccess) code = asked;
    }
    return nccl::ToStatus(api_, code, call).WithContext(Title());
  }

  std::string Title() const { return StrCat("rank ", rank(), " of ", size()); }
  Status Late(const std::string& call) const {
    return FailedPrecondition(Title(), ": ", call, " has not ended after ", timeout_.count(),
                              " s (collective_timeout_s): another rank is missing, slow, or runs something else");
  }

  // Ends what is queued: a kernel of NCCL's waits for other ranks, wherever they are.
  void Abort(const Status& why) {
    failure_ = why;
    if (comm_ != nullptr) api_.ncclCommAbort(std::exchange(comm_, nullptr));
  }
  void GiveUp(const Status& why) {
    const std::lock_guard lock(mutex_);
    if (failure_.ok()) Abort(why);
  }

  bool LookForErrors() {
    const std::lock_guard lock(mutex_);
    if (!failure_.ok()) return false;
    nccl::Code code = nccl::kSuccess;
    const nccl::Code asked = api_.ncclCommGetAsyncError(comm_, &code);
    if (asked != nccl::kSuccess) code = asked;
    if (!IsError(code)) return true;
    Abort(nccl::ToStatus(api_, code, "another rank, or the way to it").WithContext(Title()));
    return false;
  }

  const Api& api_;
  const std::chrono::seconds timeout_;
  mutable std::mutex mutex_;
  nccl::Communicator comm_ = nullptr;  // guarded by mutex_, as the failure
  Status failure_;
  std::unique_ptr<StreamWatch> watch_;
};

}  // namespace

Result<std::string> Version() {
  CUDAEP_ASSIGN_OR_RETURN(const Api* api, nccl::Nccl());
  return StrCat("NCCL ", lib::VersionText(api->library.version));
}

Result<UniqueId> MakeUniqueId() {
  CUDAEP_ASSIGN_OR_RETURN(const Api* api, nccl::Nccl());
  nccl::UniqueId unique{};
  CUDAEP_RETURN_IF_ERROR(nccl::ToStatus(*api, api->ncclGetUniqueId(&unique), "ncclGetUniqueId"));
  UniqueId id{};
  std::memcpy(id.data(), unique.bytes, id.size());
  return id;
}

Result<std::unique_ptr<Communicator>> Join(const UniqueId& id, int rank, int size, std::chrono::seconds timeout) {
  CUDAEP_ASSIGN_OR_RETURN(const Api* api, nccl::Nccl());
  int ordinal = 0;
  CUDAEP_RETURN_IF_ERROR(device::GetDevice(&ordinal));
  auto made = std::make_unique<NcclCommunicator>(*api, ordinal, rank, size, timeout);
  CUDAEP_RETURN_IF_ERROR(made->Join(id));
  return std::unique_ptr<Communicator>(std::move(made));
}

}  // namespace cudaep::comm
