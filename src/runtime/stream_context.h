// Everything that belongs to one stream: the stream itself, its library handles and its scratch memory.
//
// This is what operators get instead of looking anything up. Handles come from the device's pool when first used and
// go back when the context ends.
// Ownership: owns handles and scratch; the stream is owned or wrapped (a user's stream is never destroyed).
// Threads: one thread at a time.
#pragma once

#include <memory>

#include "lib/blas.h"
#include "lib/dnn.h"
#include "runtime/workspace.h"

namespace cudaep {

class StreamContext {
 public:
  // Wraps `stream` of device `ordinal`, which must outlive the context.
  StreamContext(int ordinal, device::Stream stream) : ordinal_(ordinal), stream_(stream), workspace_(stream) {}
  ~StreamContext();
  StreamContext(const StreamContext&) = delete;
  StreamContext& operator=(const StreamContext&) = delete;

  int ordinal() const { return ordinal_; }
  device::Stream stream() const { return stream_; }
  Workspace& workspace() { return workspace_; }

  // Created at first use (while planning); kLibraryMissing where the library cannot be loaded.
  Result<blas::Handle*> blas();
  Result<dnn::Handle*> dnn();

 private:
  int ordinal_;
  device::Stream stream_;
  Workspace workspace_;
  std::unique_ptr<blas::Handle> blas_;
  std::unique_ptr<dnn::Handle> dnn_;
};

}  // namespace cudaep
