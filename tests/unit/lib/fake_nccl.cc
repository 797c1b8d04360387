// Stands for NCCL with a communicator that does not block: calls are in progress for as long as the test says, and what
// NCCL's documentation forbids, a call to a communicator that has ended or is busy, is told as a call "forbidden".
#include "fake_nccl.h"

#define FAKE_EXPORT extern "C" __attribute__((visibility("default")))

namespace nccl = cudaep::nccl;
using cudaep::device::Stream;
using nccl::Code;
using nccl::Communicator;

namespace {

constexpr Code kRefused{5};  // ncclInvalidUsage

struct State {
  FakeNccl front;
  std::atomic<int> pending{0};  // polls that find the last call in progress
  std::atomic<bool> alive{false};
  int group = 0;
};
State* g_state = nullptr;  // replaced, never freed: threads of an earlier test may look at theirs

Communicator Handle() { return reinterpret_cast<Communicator>(g_state); }

void Tell(const std::string& call) {
  const std::lock_guard lock(g_state->front.mutex);
  g_state->front.calls.push_back(call);
}

bool Refuses(const char* call) { return std::string(g_state->front.refuses) == call; }

Code Begin() {
  g_state->pending = g_state->front.polls.load();
  return g_state->pending == 0 ? nccl::kSuccess : nccl::kInProgress;
}

Code Call(const char* name, Communicator comm) {
  const bool is_free = comm == Handle() && g_state->alive && g_state->pending == 0;
  Tell(is_free ? name : std::string("forbidden: ") + name);
  return Refuses(name) ? kRefused : nccl::kSuccess;
}

Code Queue(const char* name, Communicator comm, Stream stream) {
  if (const Code code = Call(name, comm); code != nccl::kSuccess) return code;
  if (g_state->front.queued) g_state->front.queued(stream);
  return g_state->group > 0 ? nccl::kSuccess : Begin();
}

}  // namespace

FakeNccl* fakeNccl() {
  g_state = new State;
  return &g_state->front;
}

FAKE_EXPORT Code ncclGetVersion(int* version) {
  *version = 22809;
  return nccl::kSuccess;
}
FAKE_EXPORT const char* ncclGetErrorString(Code) { return "an error of NCCL"; }
FAKE_EXPORT const char* ncclGetLastError(Communicator) { return "what it was"; }
FAKE_EXPORT Code ncclGetUniqueId(nccl::UniqueId* id) {
  *id = {};
  return nccl::kSuccess;
}
FAKE_EXPORT Code ncclCommInitRankConfig(Communicator* comm, int, nccl::UniqueId, int, nccl::Config* config) {
  Tell(config->blocking == 0 && config->magic == 0xcafebeef && config->version >= 21400 ? "init" : "forbidden: init");
  if (Refuses("init")) return kRefused;
  g_state->alive = true;
  *comm = Handle();
  return Begin();
}
FAKE_EXPORT Code ncclCommGetAsyncError(Communicator comm, Code* code) {
  if (comm != Handle() || !g_state->alive) Tell("forbidden: ncclCommGetAsyncError");
  const int pending = g_state->pending;
  if (pending > 0) --g_state->pending;
  *code = pending != 0 ? nccl::kInProgress : Code{g_state->front.error.load()};
  return nccl::kSuccess;
}
FAKE_EXPORT Code ncclCommFinalize(Communicator comm) {
  const Code code = Call("finalize", comm);
  return code == nccl::kSuccess ? Begin() : code;
}
FAKE_EXPORT Code ncclCommDestroy(Communicator comm) {
  const Code code = Call("destroy", comm);
  g_state->alive = false;
  return code;
}
FAKE_EXPORT Code ncclCommAbort(Communicator comm) {
  Tell(comm == Handle() && g_state->alive ? "abort" : "forbidden: abort");
  g_state->alive = false;
  g_state->front.aborted = true;
  return nccl::kSuccess;
}
FAKE_EXPORT Code ncclAllReduce(const void*, void*, size_t, nccl::Type, nccl::Operator, Communicator comm,
                               Stream stream) {
  return Queue("reduce", comm, stream);
}
FAKE_EXPORT Code ncclReduceScatter(const void*, void*, size_t, nccl::Type, nccl::Operator, Communicator comm,
                                   Stream stream) {
  return Queue("scatter", comm, stream);
}
FAKE_EXPORT Code ncclAllGather(const void*, void*, size_t, nccl::Type, Communicator comm, Stream stream) {
  return Queue("gather", comm, stream);
}
FAKE_EXPORT Code ncclSend(const void*, size_t, nccl::Type, int, Communicator comm, Stream stream) {
  return Queue("send", comm, stream);
}
FAKE_EXPORT Code ncclRecv(void*, size_t, nccl::Type, int, Communicator comm, Stream stream) {
  return Queue("receive", comm, stream);
}
FAKE_EXPORT Code ncclGroupStart() {
  ++g_state->group;
  Tell("group");
  return nccl::kSuccess;
}
FAKE_EXPORT Code ncclGroupEnd() {
  --g_state->group;
  Tell("end");
  return Begin();
}
