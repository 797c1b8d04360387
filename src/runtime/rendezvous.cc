#include "runtime/rendezvous.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "core/strings.h"
#include "runtime/rendezvous_note.h"

namespace cudaep {
namespace {

constexpr auto kPollInterval = std::chrono::milliseconds(5);
constexpr std::string_view kDigits = "0123456789abcdef";

std::string ToHex(const comm::UniqueId& id) {
  std::string text;
  for (const std::byte byte : id) {
    text += kDigits[std::to_integer<unsigned>(byte) >> 4];
    text += kDigits[std::to_integer<unsigned>(byte) & 15];
  }
  return text;
}

Result<comm::UniqueId> FromHex(const std::string& text) {
  comm::UniqueId id{};
  if (text.size() != 2 * id.size()) return Internal("an id of ", text.size(), " digits");
  for (size_t i = 0; i < id.size(); ++i) {
    const size_t high = kDigits.find(text[2 * i]), low = kDigits.find(text[2 * i + 1]);
    if (high == std::string_view::npos || low == std::string_view::npos) return Internal("an id that is no number");
    id[i] = static_cast<std::byte>(high << 4 | low);
  }
  return id;
}

class Meeting {
 public:
  Meeting(const GroupSettings& group, std::string_view backend)
      : group_(group), end_(std::chrono::steady_clock::now() + std::chrono::seconds(group.timeout_s)) {
    note_.nonce = NewNonce();
    note_.group = StrCat(group.size, " ranks, ", backend);
  }

  Result<comm::UniqueId> Lead(const comm::UniqueId& id) {
    note_.id = ToHex(id);
    const Status met = GatherMembers();
    if (met.ok()) {  // a member waits for the last file to go, and may then meet others in the same ones
      for (int rank = 1; rank < group_.size; ++rank) unlink(PathOf(rank).c_str());
      unlink(group_.file.c_str());
      return id;
    }
    note_.failure = met.message();
    WriteNote(group_.file, note_).IgnoreError();
    return Explain(met);
  }

  Result<comm::UniqueId> Follow() {
    CUDAEP_RETURN_IF_ERROR(Explain(Write()));
    Result<comm::UniqueId> met = AskLeader();
    if (met.ok()) return met;
    if (!note_.answers.empty()) {  // rank 0 knows us and waits
      note_.failure = met.status().message();
      Write().IgnoreError();
    } else if (ReadNote(PathOf(group_.rank)).nonce == note_.nonce) {
      unlink(PathOf(group_.rank).c_str());
    }
    return Explain(std::move(met).status());
  }

 private:
  std::string PathOf(int rank) const { return rank == 0 ? group_.file : StrCat(group_.file, '.', rank); }
  Status Write() const { return WriteNote(PathOf(group_.rank), note_); }

  Status Explain(Status status) const {
    if (status.ok()) return status;
    return std::move(status).WithContext(StrCat("rank ", group_.rank, " of ", group_.size,
                                                " (provider options collective_rank, collective_size) in '",
                                                group_.file, "'"));
  }

  Status Twice() const { return FailedPrecondition("another session meets there as rank ", group_.rank, " too"); }

  // False when the time is over.
  bool Pause() const {
    std::this_thread::sleep_for(kPollInterval);
    return std::chrono::steady_clock::now() < end_;
  }

  Status GatherMembers() {
    bool written = false;
    std::string missing;
    do {
      if (written && ReadNote(group_.file).nonce != note_.nonce) return Twice();
      const auto before = note_.answers;
      missing.clear();
      for (int rank = 1; rank < group_.size; ++rank) {
        const RendezvousNote member = ReadNote(PathOf(rank));
        const bool confirmed = member.Answers(0, note_.nonce);
        if (confirmed && !member.failure.empty()) return FailedPrecondition("rank ", rank, ": ", member.failure);
        if (!member.nonce.empty()) note_.answers[rank] = member.nonce;
        if (!confirmed) missing += StrCat(missing.empty() ? "" : ", ", rank);
      }
      if (!written || note_.answers != before) CUDAEP_RETURN_IF_ERROR(Write());
      written = true;
      if (missing.empty()) return Status::Ok();
    } while (Pause());
    return FailedPrecondition("after ", group_.timeout_s, " s (collective_timeout_s) there is no rank ", missing);
  }

  Result<comm::UniqueId> AskLeader() {
    Result<comm::UniqueId> id = comm::UniqueId{};
    std::string leader;  // once its answer was confirmed
    do {
      const RendezvousNote answer = ReadNote(group_.file);
      if (leader.empty() && ReadNote(PathOf(group_.rank)).nonce != note_.nonce) return Twice();
      const bool ours = answer.Answers(group_.rank, note_.nonce);
      if (!leader.empty() && answer.nonce != leader) return id;
      if (!ours) continue;
      if (!answer.failure.empty()) return FailedPrecondition("rank 0: ", answer.failure);
      if (!leader.empty()) continue;
      note_.answers[0] = answer.nonce;
      if (answer.group != note_.group) {
        return FailedPrecondition("rank 0 has a group of ", answer.group, ", this one is of ", note_.group);
      }
      CUDAEP_ASSIGN_OR_RETURN(id, FromHex(answer.id));
      leader = answer.nonce;
      CUDAEP_RETURN_IF_ERROR(Write());
    } while (Pause());
    return FailedPrecondition("after ", group_.timeout_s, " s (collective_timeout_s) ",
                              leader.empty() ? "there is no rank 0" : "rank 0 still waits for other ranks");
  }

  const GroupSettings& group_;
  const std::chrono::steady_clock::time_point end_;
  RendezvousNote note_;
};

}  // namespace

Result<comm::UniqueId> Meet(const GroupSettings& group, std::string_view backend,
                            const std::function<Result<comm::UniqueId>()>& make_id) {
  Meeting meeting(group, backend);
  if (group.rank != 0) return meeting.Follow();
  CUDAEP_ASSIGN_OR_RETURN(const comm::UniqueId id, make_id());
  return meeting.Lead(id);
}

}  // namespace cudaep
