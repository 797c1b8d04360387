// What one thread runs: a subject's session with inputs and outputs of its own, bound once in the device's memory.
//
// Used by one thread at a time; the subject outlives it. Failures throw Ort::Exception.
#pragma once

#include "subject.h"

namespace cudaep::run_rate {

// Whose streams Runs are on: the host's (which takes one for each thread or from a pool), or one of the application's
// for each lane, given to each Run.
enum class Streams { kHosts, kCallers };

class Lane {
 public:
  // With the host's own provider an input is copied to the device once, when it is bound.
  Lane(const Subject& subject, size_t variant, Streams streams);
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  // One Run; its outputs are there when it returns.
  void Run();

  // A Run on outputs that were overwritten before, compared with what is expected: the difference as Subject::Compare
  // gives it. Just a Run where the subject cannot copy.
  double CheckedRun();

 private:
  const Subject& subject_;
  const size_t variant_;
  Ort::SyncStream stream_{nullptr};
  Ort::RunOptions options_;
  Values inputs_, outputs_, noise_, found_;
  Ort::IoBinding binding_;
};

}  // namespace cudaep::run_rate
