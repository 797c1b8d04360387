#include "device/sim/copy_engine.h"

#include <algorithm>
#include <cstring>

#include "device/sim/heap.h"

namespace cudaep::device::sim {
namespace {

// What a barrier's own memory holds while it is in use; anything else there was never initialised, or overwritten.
uint64_t MarkOf(const uint64_t* barrier) { return 0x6d62617272696572u ^ reinterpret_cast<uintptr_t>(barrier); }

constexpr const char* kTooMany = "an arrival at a copy barrier that has all and was not waited for";

bool IsAligned(const void* pointer, unsigned bytes) { return reinterpret_cast<uintptr_t>(pointer) % bytes == 0; }

}  // namespace

void CopyEngine::Ask(std::vector<Request>* requests, const Request& request) {
  std::memset(request.to, kFreshByte, request.bytes);
  requests->push_back(request);
}

void CopyEngine::Make(const Request& request) {
  const std::byte* const from = request.from != nullptr ? request.from : request.value.data();
  if (request.valid != 0) std::memcpy(request.to, from, request.valid);
  if (request.valid != request.bytes) std::memset(request.to + request.valid, 0, request.bytes - request.valid);
}

CopyEngine::Error CopyEngine::Copy(unsigned thread, void* to, const void* from, unsigned bytes, unsigned valid) {
  if (bytes != 4 && bytes != 8 && bytes != 16) return "an asynchronous copy of other than 4, 8 or 16 bytes";
  if (valid > bytes) return "an asynchronous copy of more valid bytes than it has";
  if (!IsAligned(to, bytes) || !IsAligned(from, bytes)) return "an asynchronous copy that is not aligned to its size";
  used_ = true;
  if (threads_.size() <= thread) threads_.resize(thread + 1);
  Ask(&threads_[thread].requests, {static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes, valid});
  return nullptr;
}

void CopyEngine::Commit(unsigned thread) {
  used_ = true;
  if (threads_.size() <= thread) threads_.resize(thread + 1);
  threads_[thread].groups.push_back(threads_[thread].asked());
}

void CopyEngine::Wait(unsigned thread, unsigned pending) {
  if (threads_.size() <= thread) return;
  std::vector<uint64_t>& groups = threads_[thread].groups;
  if (groups.size() <= pending) return;
  const auto last = groups.end() - static_cast<ptrdiff_t>(pending);
  MakeUpTo(thread, *std::prev(last));
  groups.erase(groups.begin(), last);
}

void CopyEngine::MakeUpTo(unsigned thread, uint64_t asked) {
  ThreadCopies& copies = threads_[thread];
  if (asked <= copies.made) return;
  const auto end = copies.requests.begin() + static_cast<ptrdiff_t>(asked - copies.made);
  std::for_each(copies.requests.begin(), end, &Make);
  copies.requests.erase(copies.requests.begin(), end);
  copies.made = asked;
}

CopyEngine::Error CopyEngine::Find(uint64_t* barrier, Barrier** found) {
  const auto entry = barriers_.find(barrier);
  if (entry == barriers_.end()) return "a copy barrier that was not initialised in this block";
  if (*barrier != MarkOf(barrier)) return "a copy barrier whose memory was overwritten";
  *found = &entry->second;
  return nullptr;
}

CopyEngine::Error CopyEngine::Init(uint64_t* barrier, unsigned arrivals) {
  if (arrivals == 0 || arrivals >= 1u << 20) return "a copy barrier for no arrivals, or for 2^20 and more";
  used_ = true;
  Barrier& made = barriers_[barrier];
  if (!made.bulk.empty() || !made.deferred.empty()) return "a copy barrier initialised again while in use";
  made = Barrier();
  made.expected = made.pending = arrivals;
  *barrier = MarkOf(barrier);
  return nullptr;
}

CopyEngine::Error CopyEngine::Arrive(uint64_t* barrier, unsigned bytes, bool* woken) {
  Barrier* found = nullptr;
  if (Error error = Find(barrier, &found)) return error;
  if (found->pending == found->deferred.size()) return kTooMany;
  found->bytes += bytes;
  --found->pending;
  *woken = found->pending == found->deferred.size();
  // With copies on their way the phase ends when somebody looks.
  if (found->bulk.empty() && found->deferred.empty()) End(*found);
  return nullptr;
}

CopyEngine::Error CopyEngine::ArriveAfterCopies(uint64_t* barrier, unsigned thread, bool* woken) {
  Barrier* found = nullptr;
  if (Error error = Find(barrier, &found)) return error;
  if (found->pending == found->deferred.size()) return kTooMany;
  if (threads_.size() <= thread) threads_.resize(thread + 1);
  found->deferred.push_back({thread, threads_[thread].asked()});
  *woken = found->pending == found->deferred.size();
  return nullptr;
}

CopyEngine::Error CopyEngine::BulkCopy(void* to, const void* from, unsigned bytes, uint64_t* barrier, bool* woken) {
  if (bytes == 0 || bytes % 16 != 0) return "a bulk copy of no bytes, or not of whole 16 bytes";
  if (!IsAligned(to, 16) || !IsAligned(from, 16)) return "a bulk copy that is not aligned to 16 bytes";
  Barrier* found = nullptr;
  if (Error error = Find(barrier, &found)) return error;
  Ask(&found->bulk, {static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes, bytes});
  *woken = found->pending == found->deferred.size();
  return nullptr;
}

CopyEngine::Error CopyEngine::BulkStore(void* to, const void* value, uint64_t* barrier, bool* woken) {
  Request request{static_cast<std::byte*>(to), nullptr, 16, 16};
  if (!IsAligned(to, 16)) return "an asynchronous store that is not aligned to 16 bytes";
  Barrier* found = nullptr;
  if (Error error = Find(barrier, &found)) return error;
  std::memcpy(request.value.data(), value, 16);
  Ask(&found->bulk, request);
  *woken = found->pending == found->deferred.size();
  return nullptr;
}

CopyEngine::Error CopyEngine::Poll(uint64_t* barrier, unsigned parity, bool* over) {
  Barrier* found = nullptr;
  if (Error error = Find(barrier, &found)) return error;
  if (found->parity == parity && found->pending == found->deferred.size()) {
    for (const Request& request : found->bulk) {
      Make(request);
      found->bytes -= request.bytes;
    }
    found->bulk.clear();
    for (const Deferred& deferred : found->deferred) MakeUpTo(deferred.thread, deferred.asked);
    found->pending -= static_cast<unsigned>(found->deferred.size());
    found->deferred.clear();
    if (found->bytes < 0) return "more bytes are copied to a copy barrier than it expects";
    End(*found);
  }
  *over = found->parity != parity;
  return nullptr;
}

// Starts the next phase when nothing of this one is missing.
bool CopyEngine::End(Barrier& barrier) {
  if (barrier.pending != 0 || barrier.bytes != 0) return false;
  barrier.pending = barrier.expected;
  barrier.parity ^= 1;
  return true;
}

CopyEngine::Error CopyEngine::Finish() {
  if (!used_) return nullptr;
  used_ = false;
  const bool left =
      std::any_of(barriers_.begin(), barriers_.end(), [](const auto& entry) { return !entry.second.bulk.empty(); });
  barriers_.clear();
  threads_.clear();
  return left ? "the block ends before a bulk copy into its shared memory was waited for" : nullptr;
}

}  // namespace cudaep::device::sim
