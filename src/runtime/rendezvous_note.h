// What a rank writes for the others while they meet: a few lines of text, replaced as a whole. Private to
// runtime/rendezvous.cc.
#pragma once

#include <map>
#include <string>

#include "core/status.h"

namespace cudaep {

struct RendezvousNote {
  std::string nonce;                   // of the attempt that wrote it
  std::string group;                   // what the ranks must agree on
  std::map<int, std::string> answers;  // nonces seen, by rank
  std::string id;                      // of rank 0 alone
  std::string failure;                 // why the writer gave up

  bool Answers(int rank, const std::string& nonce_of_rank) const {
    const auto found = answers.find(rank);
    return found != answers.end() && found->second == nonce_of_rank;
  }
};

// A note without nonce where there is no file, or another one's.
RendezvousNote ReadNote(const std::string& path);
// Readers see the old note or the new one.
Status WriteNote(const std::string& path, const RendezvousNote& note);

std::string NewNonce();

}  // namespace cudaep
