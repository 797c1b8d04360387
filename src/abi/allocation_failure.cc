#include "abi/allocation_failure.h"

#include <memory>

namespace cudaep::abi {
namespace {

thread_local bool pending = false;
// Destroyed with the thread; only threads that saw a failure have one.
thread_local std::unique_ptr<Status> last;

}  // namespace

void NoteAllocationFailure(const Status& status) {
  last = std::make_unique<Status>(status);
  pending = true;
}

void ForgetAllocationFailure() { pending = false; }

Status TakeAllocationFailure(Status otherwise) {
  if (!pending) return otherwise;
  pending = false;
  return std::move(*last);
}

}  // namespace cudaep::abi
