// Runs a second of several threads over one session, and what they cost the processor.
#pragma once

#include "lane.h"
#include "sampler.h"

namespace cudaep::run_rate {

struct Rate {
  int threads = 0;
  double runs_per_second = 0;
  double run_us = 0;                   // of one Run as its thread sees it
  double user_us = 0, system_us = 0;   // processor time of the running threads, for each Run
  double others_us = 0;                // processor time of all other threads of the process, for each Run
  double sleeps = 0, preemptions = 0;  // context switches of the running threads, for each Run: they waited for
                                       // something (a lock, the device), or were made to
  double largest_difference = 0;       // of a result, see Subject::Compare
};

struct Plan {
  int threads = 1;
  Streams streams = Streams::kHosts;
  double seconds = 1;
  bool check_all = false;  // every timed Run is a CheckedRun, which costs copies; a few after the time always are
};

// Each thread on a lane of its own, all at once after some Runs to warm up. `sampler` may be null. The first error of
// any thread is thrown when all have ended.
Rate Measure(const Subject& subject, const Plan& plan, Sampler* sampler);

}  // namespace cudaep::run_rate
