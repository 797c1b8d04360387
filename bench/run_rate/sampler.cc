#include "sampler.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <map>

namespace cudaep::run_rate {
namespace {

constexpr int kDepth = 24;
constexpr int kOurs = 2;  // the handler and the return from it
constexpr size_t kMaxSamples = 20000;
constexpr auto kPause = std::chrono::microseconds(500);

struct Stack {
  std::array<void*, kDepth> frames;
  int depth = 0;
};

// Written by the handlers, each its own slot.
std::array<Stack, kMaxSamples> stacks;
std::atomic<size_t> taken{0}, finished{0};

void OnSignal(int) {
  const int saved = errno;
  const size_t slot = taken.fetch_add(1);
  if (slot < kMaxSamples) stacks[slot].depth = backtrace(stacks[slot].frames.data(), kDepth);
  finished.fetch_add(1);
  errno = saved;
}

struct Frame {
  std::string library, function;
};

Frame Describe(void* address) {
  Dl_info info{};
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) return {"unknown", "unknown"};
  const char* slash = std::strrchr(info.dli_fname, '/');
  const std::string library = slash == nullptr ? info.dli_fname : slash + 1;
  if (info.dli_sname != nullptr) return {library, info.dli_sname};
  char offset[32];
  std::snprintf(offset, sizeof(offset), "+0x%zx",
                static_cast<size_t>(static_cast<char*>(address) - static_cast<char*>(info.dli_fbase)));
  return {library, library + offset};
}

bool IsOfC(const Frame& frame) {
  return frame.library.starts_with("libc.so") || frame.library.starts_with("libpthread") ||
         frame.library.starts_with("ld-linux") || frame.library.starts_with("linux-vdso");
}

// The innermost frame and the innermost one that is not the C library's.
std::pair<Frame, Frame> EndsOf(const Stack& stack) {
  const Frame inner = Describe(stack.frames[kOurs]);
  for (int i = kOurs; i < stack.depth; ++i) {
    Frame frame = Describe(stack.frames[static_cast<size_t>(i)]);
    if (!IsOfC(frame)) return {inner, frame};
  }
  return {inner, inner};
}

template <class F>
void ForEachStack(F&& visit) {
  for (size_t i = 0; i < std::min(finished.load(), kMaxSamples); ++i) {
    if (stacks[i].depth > kOurs) visit(stacks[i]);
  }
}

}  // namespace

Sampler::Sampler() {
  backtrace(stacks[0].frames.data(), kDepth);  // loads what it needs, which a handler must not
  struct sigaction action {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGPROF, &action, nullptr);
}

void Sampler::Sample(std::vector<std::thread>& threads, double seconds) {
  taken = finished = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  // One at a time: a second signal to a thread that has not seen its first would be lost.
  for (size_t sent = 0; sent < kMaxSamples && std::chrono::steady_clock::now() < end;) {
    pthread_kill(threads[sent % threads.size()].native_handle(), SIGPROF);
    ++sent;
    while (finished < sent) std::this_thread::sleep_for(kPause);
    std::this_thread::sleep_for(kPause);
  }
  std::this_thread::sleep_until(end);
}

std::vector<Sampler::Place> Sampler::Places(size_t most) const {
  std::map<std::pair<std::string, std::string>, size_t> counts;
  size_t all = 0;
  ForEachStack([&](const Stack& stack) {
    const auto [inner, caller] = EndsOf(stack);
    ++counts[{inner.function, caller.function}];
    ++all;
  });
  std::vector<Place> places;
  for (const auto& [place, count] : counts) {
    places.push_back({place.first, place.second, static_cast<double>(count) / static_cast<double>(all)});
  }
  std::sort(places.begin(), places.end(), [](const Place& a, const Place& b) { return a.share > b.share; });
  if (places.size() > most) places.resize(most);
  return places;
}

std::vector<std::pair<std::string, double>> Sampler::Libraries() const {
  std::map<std::string, double> shares;
  double all = 0;
  ForEachStack([&](const Stack& stack) {
    ++shares[EndsOf(stack).second.library];
    ++all;
  });
  std::vector<std::pair<std::string, double>> sorted;
  for (const auto& [library, count] : shares) sorted.emplace_back(library, count / all);
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  return sorted;
}

}  // namespace cudaep::run_rate
