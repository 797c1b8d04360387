// A case of the fuzzer: drawn from a number, or read from a file of the corpus; and its bytes, to keep it.
#pragma once

#include <string>
#include <vector>

#include "host.h"
#include "mutate.h"

namespace cudaep::fuzz {

// What is fuzzed: models, or the settings of a session on a model that is known to work.
enum class Kind { kModels, kOptions };

struct Case {
  std::string model;
  std::vector<Setting> settings;
  bool optimize = false;
  bool cpu_allowed = true;
  bool restart = false;  // the settings have entries of the environment
  uint64_t seed = 0;     // of the inputs
};

Case DrawCase(Kind kind, uint64_t number, const Pool& pool);

// One file a case: a line of settings after another, then the model. Read throws std::runtime_error.
std::string Write(const Case& drawn);
Case Read(const std::string& bytes);

}  // namespace cudaep::fuzz
