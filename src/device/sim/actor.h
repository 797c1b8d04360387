// Who did something to memory, in a form that is cheap to keep and is turned into text only for an error.
#pragma once

#include <cstdint>
#include <string>

#include "device/sim/kernel_call.h"

namespace cudaep::device::sim {

// The demangled name of a kernel, from the symbol table of the file it lives in; its file and offset without one.
std::string KernelName(AnyKernel kernel);

struct Actor {
  AnyKernel kernel = nullptr;  // null: `what` says it
  const char* what = nullptr;  // static text
  uint32_t stream = 0;

  bool known() const { return kernel != nullptr || what != nullptr; }
  std::string Describe() const;
};

}  // namespace cudaep::device::sim
