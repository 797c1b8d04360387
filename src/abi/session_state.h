// What one session's provider, streams and kernels share: settings, the stream table, the device's memory.
//
// Reference-counted: a stream may outlive the provider object that made it. A stream of the caller's must outlive the
// session: its scratch memory and its chunks are given up when the state ends, after waiting for it.
// An application may also make streams outside any session, around one of its own or a new one, and give them to Runs
// of several sessions: each of these adopts the stream, and lets go of it when the application releases it. Threads:
// immutable apart from the stream table, the foreign contexts and `spread`, which guard themselves. Lock order: the
// list of live states is locked first, a state's lock inside it, the memory's locks inside both.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "abi/graph_runs.h"
#include "lib/comm.h"
#include "memory/device_memory.h"
#include "runtime/settings.h"
#include "runtime/stream_table.h"

namespace cudaep::abi {

class SessionState {
 public:
  // Fails for a stream of the caller's that is not one of the settings' device.
  static Result<std::shared_ptr<SessionState>> Create(const Settings& settings,
                                                      std::shared_ptr<memory::DeviceMemory> memory,
                                                      bool several_devices);
  ~SessionState();
  SessionState(const SessionState&) = delete;
  SessionState& operator=(const SessionState&) = delete;

  int ordinal() const { return settings_.device_ordinal; }
  const Settings& settings() const { return settings_; }
  const std::shared_ptr<memory::DeviceMemory>& memory() const { return memory_; }
  StreamTable& streams() { return streams_; }
  // Only with several GPUs can a thread's current device differ from ours.
  bool several_devices() const { return several_devices_; }

  // The stream that all Runs share, the caller's or the unified one; null where each Run has its own. The legacy
  // default stream has the value that differs from null.
  device::Stream only_stream() const { return only_stream_; }

  // The context of a stream; one made outside this session gets one here at first sight.
  Result<StreamContext*> ContextOf(device::Stream stream) {
    if (StreamContext* context = streams_.Find(stream)) [[likely]]
      return context;
    return Adopt(stream);
  }

  // The context of a node that the host started on `stream`: that stream's, or that of the CUDA graph which the calling
  // thread's Run belongs to.
  Result<StreamContext*> ContextOfNode(device::Stream stream) {
    return graph_runs_ == nullptr ? ContextOf(stream) : ContextInGraph(stream);
  }
  // Null where no CUDA graphs are captured through the host.
  GraphRuns* graph_runs() const { return graph_runs_.get(); }

  // Whether the model has graphs inside control flow, whose nodes the host may hand values in the wrong memory. Known
  // before the first kernel is made.
  bool has_inner_graphs() const { return has_inner_graphs_.load(std::memory_order_relaxed); }
  void InnerGraphSeen() { has_inner_graphs_.store(true, std::memory_order_relaxed); }

  // Constants that one node of their graph reads and nothing else does, by name; told for each graph, of which the host
  // may ask again after it has changed it. Where two graphs have constants of one name, what was said last holds for
  // both. Told while the session is created, before the first kernel is made.
  void ConstantSeen(const std::string& name, bool read_once);
  bool IsReadOnce(const std::string& name) const { return read_once_.contains(name); }

  // Waits for all work of the session, on its device, which is current. Other work of the application there is waited
  // for only where Runs have streams that come and go. kFailedPrecondition while this thread captures.
  Status Await() const;

  // For statistics: a provider was made with this state, compiled regions come and go.
  void SessionMade() { has_session_.store(true, std::memory_order_relaxed); }
  void CountRegions(int more) { regions_.fetch_add(more, std::memory_order_relaxed); }

  struct Counts {
    int sessions = 0, regions = 0;
    std::set<device::Stream> streams;
  };
  // Of all that live, by device ordinal.
  static std::map<int, Counts> CountLive();

  // What the session's operators need, added up while they are created: streams take handles when they are made, after
  // all operators of the main graph exist. The first that needs other ranks waits for them to join.
  Status Need(LibrarySet libraries);
  LibrarySet libraries() const { return LibrarySet::FromBits(libraries_.load(std::memory_order_relaxed)); }

  // Null where no operator needs one.
  comm::Communicator* communicator() const { return communicator_.get(); }
  // What has failed among the ranks; after waiting for this thread's Run, if it is `synchronized` and not on a stream
  // of the caller's.
  Status CheckGroup(bool synchronized) const;

  // Whether the nodes of one Run are spread over several streams, so that memory is used by other streams than the one
  // it was asked for. Known before the first node of such a Run: the host makes a Run's streams on the Run's thread,
  // after its beginning and before anything asks for memory. Those it makes later are for graphs inside control flow,
  // whose nodes then run on the stream of the node around them.
  std::shared_ptr<const std::atomic<bool>> spread() const { return spread_; }
  void StreamMade();

  // The Run that the calling thread is in.
  void RunBegins();
  static void RunEnds();
  static bool IsInRun();
  static void RunAsksForMemory();
  static void RunWorksOn(device::Stream stream);
  // Waits for the stream that the Run worked on last on this thread, which may be one of the host's own when a Run has
  // several streams; OK where there is none. kFailedPrecondition while the stream is captured.
  static Status AwaitRun();

  // An application has made, or is about to release, an object for `stream`. With the last of them, sessions that have
  // adopted the stream let go of it; its work is done by then.
  static void ApplicationHas(int ordinal, device::Stream stream);
  static void ApplicationReleases(int ordinal, device::Stream stream);

 private:
  SessionState(const Settings& settings, std::shared_ptr<memory::DeviceMemory> memory, bool several_devices,
               device::UniqueStream unified);
  Result<StreamContext*> Adopt(device::Stream stream);
  Result<StreamContext*> ContextInGraph(device::Stream stream);
  bool IsApplications(device::Stream stream);
  // The context of a foreign stream, for the caller to destroy without a lock: that waits for the device.
  std::unique_ptr<StreamContext> Forget(device::Stream stream);

  const Settings settings_;
  const std::shared_ptr<memory::DeviceMemory> memory_;
  const bool several_devices_;
  const device::UniqueStream unified_;
  const device::Stream only_stream_;
  const std::shared_ptr<std::atomic<bool>> spread_;
  std::atomic<bool> has_inner_graphs_{false};
  std::set<std::string> read_once_;
  std::atomic<uint8_t> libraries_{0};
  std::atomic<bool> has_session_{false};
  std::atomic<int> regions_{0};
  StreamTable streams_;
  std::unique_ptr<GraphRuns> graph_runs_;
  std::unique_ptr<comm::Communicator> communicator_;  // set while kernels are created
  std::mutex mutex_;
  std::vector<std::unique_ptr<StreamContext>> foreign_;  // guarded by mutex_
};

}  // namespace cudaep::abi
