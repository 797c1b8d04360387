// One model in one session on the provider under test, with inputs and the results that the host's CPU provider gives.
//
// Set up by one thread, used by any. Failures throw Ort::Exception.
#pragma once

#include <string>
#include <vector>

#include "host_api/host_api.h"

namespace cudaep::run_rate {

struct Settings {
  const char* model = nullptr;
  const char* plugin = nullptr;  // null: the CUDA provider that the host itself brings
  host_api::Entries options;     // of the provider
  int64_t free_dim = 8;          // of inputs, where the model leaves a dimension open
  bool cpu_allowed = false;      // nodes may be left to the CPU
  double tolerance = 0.01;       // as Subject::Compare gives it: room for TF32
};

// Values that make up a Run, in host memory.
using Values = std::vector<Ort::Value>;

class Subject {
 public:
  // Inputs differ between variants, so that results of concurrent Runs cannot be taken for each other's.
  static constexpr size_t kVariants = 4;

  // Opens the session and checks one Run of each variant against the CPU provider.
  explicit Subject(const Settings& settings);

  Ort::Session& session() const { return session_; }
  const Values& Inputs(size_t variant) const { return inputs_[variant % kVariants]; }
  const Values& Expected(size_t variant) const { return expected_[variant % kVariants]; }
  const std::vector<std::string>& InputNames() const { return input_names_; }
  const std::vector<std::string>& OutputNames() const { return output_names_; }

  // Largest difference over the largest expected number; other types than float must be equal bit by bit. Beyond the
  // tolerance it throws.
  double Compare(const Values& expected, const Values& found) const;

  // In the device's memory, without a value, as the tensor `like`.
  Ort::Value OnDevice(const Ort::Value& like) const;
  // From one tensor to the other, wherever they are, and waits. Not with the host's own provider, which has no copies
  // outside of a session.
  void Copy(const Ort::Value& from, Ort::Value& to) const;
  bool CanCopy() const { return device_ != nullptr; }
  // Null with the host's own provider, which has no streams of an application's for a single Run.
  const OrtEpDevice* device() const { return device_; }

 private:
  Values RunOnHost(Ort::Session& on, size_t variant) const;

  Settings settings_;
  Ort::Env env_;
  const OrtEpDevice* device_ = nullptr;
  mutable Ort::Session session_{nullptr};  // a Run is no change
  Ort::Allocator allocator_{nullptr};
  std::vector<std::string> input_names_, output_names_;
  std::vector<Values> inputs_, expected_;
};

// A tensor in host memory with the type and the shape of `like`.
Ort::Value OnHost(const Ort::Value& like);

}  // namespace cudaep::run_rate
