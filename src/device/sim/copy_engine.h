// Asynchronous copies of one block into its shared memory, made as late as the rules allow.
//
// A copy that was asked for overwrites its destination with NaN patterns at once, reads its source and writes only when
// somebody waits for it, and never happens otherwise: a missing wait, or one for too few copies, shows in the numbers.
//
// Threads: the executor's. Failure: a call that breaks a rule returns what it broke, static text, or null.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace cudaep::device::sim {

class CopyEngine {
 public:
  using Error = const char*;

  // ---- Copies of a thread (cp.async): `valid` bytes are copied, the rest of `bytes` becomes zero ----
  Error Copy(unsigned thread, void* to, const void* from, unsigned bytes, unsigned valid);
  void Commit(unsigned thread);
  // Makes all but the last `pending` groups that the thread committed.
  void Wait(unsigned thread, unsigned pending);

  // ---- Barriers that count arrivals and bytes (mbarrier) ----
  Error Init(uint64_t* barrier, unsigned arrivals);
  // One arrival, after `bytes` more of bulk copies are expected. `*woken`: whether waiting threads may look again.
  Error Arrive(uint64_t* barrier, unsigned bytes, bool* woken);
  // An arrival once the copies that `thread` asked for so far have been made.
  Error ArriveAfterCopies(uint64_t* barrier, unsigned thread, bool* woken);
  Error BulkCopy(void* to, const void* from, unsigned bytes, uint64_t* barrier, bool* woken);
  // 16 bytes, which count like those of bulk copies (st.async).
  Error BulkStore(void* to, const void* value, uint64_t* barrier, bool* woken);
  // Whether the phase of `parity` is over; it is ended here, its copies made, when nothing else is missing.
  Error Poll(uint64_t* barrier, unsigned parity, bool* over);

  // The block is over. Bulk copies that nobody waited for are an error: they would write into another block's memory.
  Error Finish();

 private:
  struct Request {
    std::byte* to;
    const std::byte* from;  // null: `value`
    unsigned bytes, valid;
    std::array<std::byte, 16> value = {};
  };
  struct ThreadCopies {
    std::vector<Request> requests;  // not made yet, oldest first; the first is number `made`
    uint64_t made = 0;
    std::vector<uint64_t> groups;  // where committed ones end
    uint64_t asked() const { return made + requests.size(); }
  };
  struct Deferred {
    unsigned thread;
    uint64_t asked;
  };
  struct Barrier {
    unsigned expected = 0, pending = 0;  // arrivals
    int64_t bytes = 0;                   // expected and not copied
    unsigned parity = 0;                 // of the phase in progress
    std::vector<Request> bulk;
    std::vector<Deferred> deferred;
  };
  Error Find(uint64_t* barrier, Barrier** found);
  static void Ask(std::vector<Request>* requests, const Request& request);
  static void Make(const Request& request);
  void MakeUpTo(unsigned thread, uint64_t asked);
  bool End(Barrier& barrier);

  bool used_ = false;
  std::vector<ThreadCopies> threads_;
  std::unordered_map<uint64_t*, Barrier> barriers_;
};

}  // namespace cudaep::device::sim
