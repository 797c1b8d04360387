// Names the node on whose behalf the calling thread allocates, for the table of the largest users.
//
// Cost: one thread-local pointer. Labels are compared by address and must live as long as the process: intern them
// once, when a kernel is created.
#pragma once

#include <string_view>

namespace cudaep::memory {

// The same text yields the same pointer; never freed.
const char* InternLabel(std::string_view text);

// Null outside every scope.
const char* CurrentLabel();

class LabelScope {
 public:
  explicit LabelScope(const char* label);
  ~LabelScope();
  LabelScope(const LabelScope&) = delete;
  LabelScope& operator=(const LabelScope&) = delete;

 private:
  const char* outer_;
};

}  // namespace cudaep::memory
