#include "abi/graph_runs.h"

#include <charconv>
#include <cstring>
#include <utility>

#include "memory/memory_registry.h"

namespace cudaep::abi {
namespace {

constexpr const char* kIdKey = "gpu_graph_id";
constexpr int kNoGraph = -1;  // the host's word for an ordinary Run

// The Run that this thread is in, where it belongs to a graph.
struct RunOfThread {
  GraphRuns* session = nullptr;
  const memory::DeviceMemory* memory = nullptr;
  DeviceGraph* graph = nullptr;
  int id = 0;
  size_t kernels = 0;  // that have run
  bool may_be_abandoned = false;
};
thread_local constinit RunOfThread t_run;

Result<int> IdOf(const OrtRunOptions* options) {
  const char* const text = options == nullptr ? nullptr : Host().ort->GetRunConfigEntry(options, kIdKey);
  if (text == nullptr) return 0;
  int id = 0;
  const char* const end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, id);
  if (error == std::errc() && stop == end && stop != text) return id;
  return InvalidArgument("run option ", kIdKey, "='", text, "' is no integer");
}

}  // namespace

Result<std::unique_ptr<GraphRuns>> GraphRuns::Create(const Settings& settings,
                                                     std::shared_ptr<memory::DeviceMemory> memory,
                                                     device::Stream only_stream) {
  device::UniqueStream stream;
  CUDAEP_RETURN_IF_ERROR(device::StreamCreate(stream.Receive()));
  Status possible = memory->BelongToGraph(stream.get());
  memory::StreamEnded(settings.device_ordinal, stream.get());
  CUDAEP_RETURN_IF_ERROR(std::move(possible).WithContext("provider option enable_cuda_graph='1'"));
  return std::unique_ptr<GraphRuns>(
      new GraphRuns(settings, {.memory = std::move(memory),
                               .libraries = {},
                               .only_stream = only_stream,
                               .order_with_legacy_stream = settings.order_with_legacy_stream,
                               .warm_up_runs = settings.graph_warm_up_runs}));
}

Status GraphRuns::Begin(const OrtRunOptions* options, LibrarySet libraries) {
  // A session's Runs do not nest: the thread's one before has not ended as it should have.
  if (t_run.session == this || (t_run.graph != nullptr && t_run.may_be_abandoned)) t_run.session->Abandon();
  CUDAEP_ASSIGN_OR_RETURN(const int id, IdOf(options));
  if (id == kNoGraph) return Status::Ok();
  if (t_run.graph != nullptr) {
    return FailedPrecondition("a Run with ", kIdKey, "=", id, " was begun inside one with ", kIdKey, "=", t_run.id);
  }
  DeviceGraph::Setup setup = setup_;
  setup.libraries = libraries;
  CUDAEP_ASSIGN_OR_RETURN(DeviceGraph* const graph, graphs_.BeginRun(id, setup));
  t_run = {.session = this, .memory = setup_.memory.get(), .graph = graph, .id = id};
  return Status::Ok();
}

namespace {

// The thread's Run, unless it has been ended, is given up with the scope.
class AbandonedWithScope {
 public:
  explicit AbandonedWithScope(GraphRuns& runs) : runs_(runs) {}
  ~AbandonedWithScope() { runs_.Abandon(); }
  AbandonedWithScope(const AbandonedWithScope&) = delete;
  AbandonedWithScope& operator=(const AbandonedWithScope&) = delete;

 private:
  GraphRuns& runs_;
};

}  // namespace

Status GraphRuns::End(bool synchronize) {
  if (t_run.session != this) return Status::Ok();
  const RunOfThread run = t_run;
  const AbandonedWithScope guard(*this);  // where there is no host memory for the text below
  const size_t all = kernels_.load(std::memory_order_relaxed);
  Status outcome;
  if (run.kernels != all) {
    outcome = FailedPrecondition("no CUDA graph was captured for ", kIdKey, "=", run.id, ": ", run.kernels, " of ", all,
                                 " nodes ran on the thread of the Run; it failed, or the host runs nodes on threads of "
                                 "its own (parallel execution) or only some of them, which cannot be captured");
  }
  t_run = {};
  return graphs_.EndRun(run.id, run.graph, std::move(outcome), synchronize);
}

void GraphRuns::Abandon() {
  if (t_run.session != this) return;
  const RunOfThread run = std::exchange(t_run, {});
  graphs_.GiveUpRun(run.id, run.graph);
}

void GraphRuns::MayBeAbandoned() { t_run.may_be_abandoned = true; }

GraphRuns::~GraphRuns() {
  Abandon();
  live_.fetch_sub(1, std::memory_order_relaxed);
}

bool GraphRuns::IsRunHere() const { return t_run.session == this; }
bool GraphRuns::IsFirstNode() const { return t_run.kernels == 0; }

Result<StreamContext*> GraphRuns::Enter(bool is_given) {
  if (!is_given) return t_run.graph->Enter();
  return FailedPrecondition("the Run was given a stream, of which replays of a CUDA graph do not learn; give the ",
                            "session a stream (user_compute_stream), or run with ", kIdKey, "=-1");
}

Status GraphRuns::Take(const ops::PlannedCall& call) {
  if (t_run.session != this) return Status::Ok();
  if (!call.plan->capturable) {
    return FailedPrecondition(
        "the operator's work on these inputs cannot be captured into a CUDA graph (it waits for "
        "the device, or draws numbers on the host); run with ",
        kIdKey, "=-1, or the session without enable_cuda_graph");
  }
  t_run.graph->Hold(call.entry);
  return Status::Ok();
}

void GraphRuns::NodeDone(const ModelNode& node) {
  if (t_run.session != this) return;
  ++t_run.kernels;
  t_run.graph->NodeQueued(node);
}

Result<device::Stream> GraphRuns::StreamForMemory(const memory::DeviceMemory* memory) {
  if (t_run.graph == nullptr) [[likely]]
    return device::Stream{nullptr};
  if (memory == t_run.memory) return t_run.graph->stream();
  return FailedPrecondition("a Run with ", kIdKey, "=", t_run.id, " asks for memory of another configuration than its ",
                            "session's, which a CUDA graph cannot keep");
}

Status GraphRuns::CheckCopy(bool feeds) {
  if (t_run.graph == nullptr) [[likely]]
    return Status::Ok();
  const char* const what =
      feeds
          ? "an input lies in host memory, or an output in device memory is made in host memory (a shape, a constant), "
            "and the host's copy of it is no part of the CUDA graph: replays would not see new contents"
          : "an output is copied from the device by the host, which replays of the CUDA graph would not do";
  return FailedPrecondition("Run with ", kIdKey, "=", t_run.id, ": ", what,
                            "; bind inputs and outputs in device memory, and outputs made in host memory there (IO "
                            "binding), or run with ",
                            kIdKey, "=-1");
}

}  // namespace cudaep::abi
