#include "rate.h"

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <memory>
#include <thread>

namespace cudaep::run_rate {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kWarmUpRuns = 10;  // plans, streams, scratch memory and library handles
constexpr int kCheckedRuns = 5;

double MicrosecondsOf(const timeval& time) {
  return 1e6 * static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec);
}

struct Usage {
  double user_us = 0, system_us = 0, sleeps = 0, preemptions = 0;

  static Usage Of(int who) {
    rusage usage{};
    getrusage(who, &usage);
    return {MicrosecondsOf(usage.ru_utime), MicrosecondsOf(usage.ru_stime), static_cast<double>(usage.ru_nvcsw),
            static_cast<double>(usage.ru_nivcsw)};
  }
  void Add(const Usage& to, const Usage& from) {
    user_us += to.user_us - from.user_us;
    system_us += to.system_us - from.system_us;
    sleeps += to.sleeps - from.sleeps;
    preemptions += to.preemptions - from.preemptions;
  }
};

struct Worker {
  std::unique_ptr<Lane> lane;
  int64_t runs = 0;
  Usage usage;
  double largest_difference = 0;
  std::string error;

  template <class Work>
  void Guarded(Work&& work) {
    if (!error.empty()) return;
    try {
      work();
    } catch (const std::exception& exception) {
      error = exception.what();
      if (error.empty()) error = "an error without text";
    }
  }
  void CheckedRun() { largest_difference = std::max(largest_difference, lane->CheckedRun()); }

  void Timed(const std::atomic<bool>& stop, bool check_all) {
    const Usage before = Usage::Of(RUSAGE_THREAD);
    while (!stop.load(std::memory_order_relaxed)) {
      check_all ? CheckedRun() : lane->Run();
      ++runs;
    }
    usage.Add(Usage::Of(RUSAGE_THREAD), before);
  }
};

}  // namespace

Rate Measure(const Subject& subject, const Plan& plan, Sampler* sampler) {
  std::vector<Worker> workers(static_cast<size_t>(plan.threads));
  for (size_t i = 0; i < workers.size(); ++i) workers[i].lane = std::make_unique<Lane>(subject, i, plan.streams);
  std::atomic<bool> stop{false};
  std::barrier begin(plan.threads + 1), end(plan.threads + 1);
  std::vector<std::thread> threads;
  for (Worker& worker : workers) {
    threads.emplace_back([&] {
      worker.Guarded([&] {
        for (int i = 0; i < kWarmUpRuns; ++i) worker.lane->Run();
      });
      begin.arrive_and_wait();
      worker.Guarded([&] { worker.Timed(stop, plan.check_all); });
      end.arrive_and_wait();
      worker.Guarded([&] {
        for (int i = 0; i < kCheckedRuns; ++i) worker.CheckedRun();
      });
    });
  }
  begin.arrive_and_wait();
  const Usage before = Usage::Of(RUSAGE_SELF);
  const auto start = Clock::now();
  if (sampler != nullptr) {
    sampler->Sample(threads, plan.seconds);
  } else {
    std::this_thread::sleep_for(std::chrono::duration<double>(plan.seconds));
  }
  stop = true;
  end.arrive_and_wait();
  const double elapsed_us = std::chrono::duration<double, std::micro>(Clock::now() - start).count();
  Usage process, own;
  process.Add(Usage::Of(RUSAGE_SELF), before);
  for (std::thread& thread : threads) thread.join();
  int64_t runs = 0;
  Rate rate;
  for (const Worker& worker : workers) {
    if (!worker.error.empty()) host_api::Fail(worker.error);
    runs += worker.runs;
    own.Add(worker.usage, {});
    rate.largest_difference = std::max(rate.largest_difference, worker.largest_difference);
  }
  const auto each = static_cast<double>(std::max<int64_t>(runs, 1));
  rate.threads = plan.threads;
  rate.runs_per_second = 1e6 * static_cast<double>(runs) / elapsed_us;
  rate.run_us = elapsed_us * plan.threads / each;
  rate.user_us = own.user_us / each;
  rate.system_us = own.system_us / each;
  rate.others_us = std::max(0.0, process.user_us + process.system_us - own.user_us - own.system_us) / each;
  rate.sleeps = own.sleeps / each;
  rate.preemptions = own.preemptions / each;
  return rate;
}

}  // namespace cudaep::run_rate
