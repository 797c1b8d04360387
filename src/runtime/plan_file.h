// A file of plans that several processes share: text for text.
//
// Read once, at the first look-up. Writing merges with what others wrote meanwhile, under a lock file beside it, into a
// new file that takes the old one's name, so a reader sees the old or the new file, whole; what a killed process left
// of a new one is removed by the next that writes. Every record has a checksum; a file of another format or that does
// not read to its end is not used at all and written anew, and the log says so once. Only a regular file is used; a
// link is followed. Threads: all functions may be called from any thread.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "core/status.h"

namespace cudaep {

class PlanFile {
 public:
  // What a file may grow to, and the largest text in it.
  static constexpr size_t kMostBytes = size_t{256} << 20;
  static constexpr size_t kMostTextBytes = size_t{16} << 20;

  explicit PlanFile(const std::string& path);

  // Empty when the file has nothing for `key`.
  std::string Find(const std::string& key);
  // Kept in memory until Save; too long a text is not kept.
  void Put(const std::string& key, std::string text);
  // Writes what was put; does nothing when that is nothing. kDeviceError never; kFailedPrecondition names the file and
  // the system's reason.
  Status Save();
  // The same, but a failure goes to the log, once.
  void SaveOrLog();
  // Whether Save was called, with whatever outcome.
  bool was_saved();

  const std::string& path() const { return path_; }

 private:
  using Records = std::map<std::string, std::string>;
  // What the file at path_ has; empty where there is none or it is damaged.
  Records Read();
  void ReadOnce();
  Status Write(const Records& records) const;

  const std::string path_;
  std::mutex mutex_;  // guards the rest
  bool was_read_ = false, was_saved_ = false, failure_logged_ = false, damage_logged_ = false;
  Records records_, unwritten_;
};

// Where plans are kept when no option says so: below $ORT_CUDA_EP_CACHE, $XDG_CACHE_HOME or ~/.cache; empty when none
// of them is set.
std::string DefaultPlanFile();

}  // namespace cudaep
