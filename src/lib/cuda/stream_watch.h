// Notices operations on streams that never end: each is followed by an event, which a thread looks at now and then.
//
// The thread starts with the first operation and ends with the object. Threads: any, one at a time for Add.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "device/device.h"

namespace cudaep::comm {

class StreamWatch {
 public:
  // `late(title)` is called once, by the thread, for the first operation that has not ended `limit` after it was
  // queued; `look`, each time the thread looks while there is something to wait for, returns whether to go on.
  StreamWatch(int ordinal, std::chrono::seconds limit, std::function<void(const std::string&)> late,
              std::function<bool()> look);
  ~StreamWatch();
  StreamWatch(const StreamWatch&) = delete;
  StreamWatch& operator=(const StreamWatch&) = delete;

  // What has just been queued on `stream`.
  Status Add(std::string title, device::Stream stream);

 private:
  struct Pending {
    std::string title;
    device::UniqueEvent event;
    std::chrono::steady_clock::time_point end;
  };
  void Loop();
  void DropDone();

  const int ordinal_;
  const std::chrono::seconds limit_;
  const std::function<void(const std::string&)> late_;
  const std::function<bool()> look_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;            // guarded by mutex_, as what follows
  std::deque<Pending> pending_;  // in order of `end`
  std::vector<device::UniqueEvent> idle_;
  std::thread thread_;
};

}  // namespace cudaep::comm
