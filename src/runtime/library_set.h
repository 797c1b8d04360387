// Which vendor libraries an operator, a session or a stream uses.
#pragma once

#include <cstdint>

namespace cudaep {

struct LibrarySet {
  bool blas = false, dnn = false;
  bool comm = false;  // the session's communicator (runtime/process_group.h)

  constexpr LibrarySet operator|(LibrarySet other) const {
    return {blas || other.blas, dnn || other.dnn, comm || other.comm};
  }
  constexpr uint8_t bits() const { return static_cast<uint8_t>((blas ? 1 : 0) | (dnn ? 2 : 0) | (comm ? 4 : 0)); }
  static constexpr LibrarySet FromBits(uint8_t bits) { return {(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0}; }
};

}  // namespace cudaep
