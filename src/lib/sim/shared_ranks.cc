#include "lib/sim/shared_ranks.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "core/checked_math.h"
#include "core/strings.h"

namespace cudaep::comm {
namespace {

constexpr size_t kPageBytes = 4096;

Status SystemError(std::string_view call, const std::string& name) {
  return Status(StatusCode::kDeviceError,
                StrCat("shared memory '", name, "' of the simulated device: ", call, ": ", std::strerror(errno)));
}

}  // namespace

std::string SharedRanks::PartName(int rank) const { return StrCat(name_, '.', rank); }

Status SharedRanks::Open(const std::string& name, int rank, int size, std::chrono::steady_clock::time_point end) {
  name_ = name;
  rank_ = rank;
  size_ = size;
  parts_.resize(static_cast<size_t>(size));
  const size_t bytes = sizeof(Slot) * static_cast<size_t>(size);
  const int control = shm_open(name_.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);  // by whoever comes first, all zeros
  if (control < 0) return SystemError("shm_open", name_);
  // What the file system has no room for would end the process at the first touch.
  errno = posix_fallocate(control, 0, static_cast<off_t>(bytes));
  if (errno == 0) control_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, control, 0);
  close(control);
  if (control_ == nullptr || control_ == MAP_FAILED) {
    control_ = nullptr;
    Status failure = SystemError(StrCat(bytes, " bytes"), name_);
    shm_unlink(name_.c_str());
    return failure;
  }
  slots_ = static_cast<Slot*>(control_);
  Part& own = parts_[static_cast<size_t>(rank)];
  own.file = shm_open(PartName(rank).c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
  if (own.file < 0) return SystemError("shm_open", PartName(rank));
  if (flock(own.file, LOCK_EX) != 0) return SystemError("flock", PartName(rank));
  slots_[rank].joined.store(1, std::memory_order_release);
  Status joined = WaitForAll(&Slot::joined, end);
  for (int other = 0; other < size && joined.ok(); ++other) {
    Part& part = parts_[static_cast<size_t>(other)];
    if (other == rank) continue;
    part.file = shm_open(PartName(other).c_str(), O_RDONLY | O_CLOEXEC, 0);
    if (part.file < 0) joined = SystemError("shm_open", PartName(other));
  }
  if (joined.ok()) {
    slots_[rank].opened.store(1, std::memory_order_release);
    joined = WaitForAll(&Slot::opened, end);
  }
  shm_unlink(PartName(rank).c_str());
  if (rank == 0 || !joined.ok()) shm_unlink(name_.c_str());
  for (int other = 0; other < size && !joined.ok(); ++other) shm_unlink(PartName(other).c_str());  // of killed ones
  return joined;
}

SharedRanks::~SharedRanks() {
  for (const Part& part : parts_) {
    if (part.mapped != nullptr) munmap(part.mapped, part.bytes);
    if (part.file >= 0) close(part.file);
  }
  if (control_ != nullptr) munmap(control_, sizeof(Slot) * static_cast<size_t>(size_));
}

Status SharedRanks::WaitForAll(std::atomic<uint64_t> Slot::*sign, std::chrono::steady_clock::time_point end) const {
  while (true) {
    std::string missing;
    for (int rank = 0; rank < size_; ++rank) {
      if ((slots_[rank].*sign).load(std::memory_order_acquire) == 0)
        missing += StrCat(missing.empty() ? "" : ", ", rank);
    }
    if (missing.empty()) return Status::Ok();
    if (std::chrono::steady_clock::now() >= end) {
      return FailedPrecondition("rank ", missing, " of ", size_, " did not join the group in time");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// The lock goes with its holder.
bool SharedRanks::HasEnded(int rank) const {
  const int file = parts_[static_cast<size_t>(rank)].file;
  if (rank == rank_ || flock(file, LOCK_SH | LOCK_NB) != 0) return false;
  flock(file, LOCK_UN);
  return true;
}

Status SharedRanks::Map(Part* part, size_t bytes, bool writable) const {
  if (part->bytes >= bytes) return Status::Ok();
  if (part->mapped != nullptr) munmap(std::exchange(part->mapped, nullptr), std::exchange(part->bytes, 0));
  void* const mapped = mmap(nullptr, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, part->file, 0);
  if (mapped == MAP_FAILED) return SystemError("mmap", name_);
  part->mapped = mapped;
  part->bytes = bytes;
  return Status::Ok();
}

Status SharedRanks::Post(uint64_t number, const Signature& signature, const void* data, size_t bytes) {
  Part& own = parts_[static_cast<size_t>(rank_)];
  const size_t room = AlignUp(bytes, kPageBytes);
  if (own.bytes < room && (errno = posix_fallocate(own.file, 0, static_cast<off_t>(room))) != 0) {
    return SystemError(StrCat(room, " bytes"), name_);
  }
  CUDAEP_RETURN_IF_ERROR(Map(&own, room, true));
  std::memcpy(own.mapped, data, bytes);
  Slot& slot = slots_[rank_];
  slot.signature = signature;
  slot.bytes.store(room, std::memory_order_relaxed);
  slot.posted.store(number, std::memory_order_release);
  return Status::Ok();
}

Result<const std::byte*> SharedRanks::DataOf(int rank) {
  Part& part = parts_[static_cast<size_t>(rank)];
  CUDAEP_RETURN_IF_ERROR(Map(&part, slots_[rank].bytes.load(std::memory_order_relaxed), rank == rank_));
  return static_cast<const std::byte*>(part.mapped);
}

}  // namespace cudaep::comm
