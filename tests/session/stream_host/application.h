// What the checks of stream_host share: an application's side of the probe, sessions, and Runs on a stream of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "host_api/host_api.h"

namespace cudaep::stream_host {

using namespace cudaep::host_api;  // NOLINT(google-build-using-namespace)

// The functions of the test build of the plug-in; tests/session/probe/probe.cc says what they do.
struct Probe {
  explicit Probe(const char* path);
  uint64_t Waits() const;

  void* library;
  void (*counters)(uint64_t*);
  void* (*stream_create)(int, int);
  const char* (*stream_destroy)(void*);
  const char* (*synchronize)(void*);
  void* (*malloc)(size_t);
  const char* (*free)(void*);
  const char* (*produce)(void*, float*, float, int64_t);
  const char* (*read)(void*, void*, const void*, size_t);
  size_t (*bytes_in_use)(int);
  const char* (*capture_begin)(void*);
  const char* (*capture_end)(void*, void**);
  const char* (*graph_launch)(void*, void*);
  const char* (*graph_destroy)(void*);
};

// The process's; main makes them.
inline std::unique_ptr<Probe> probe;
inline Ort::Env env{nullptr};
inline const OrtEpDevice* ep_device = nullptr;
inline std::string models;  // the folder

// Fails with the text of an error of the probe.
void Check(const char* error);

// A session of one of the models, every node on the plug-in unless `cpu_too`; `option` is one of the provider's to set
// to 1.
Ort::Session Open(const std::string& model = "products", bool cpu_too = false, const char* option = nullptr);

Ort::SyncStream OwnStream();
Ort::SyncStream Wrap(void* stream);

enum class Place : uint8_t { kDevice, kPinned, kHost };  // page-locked memory is the plug-in's

// The shapes of one session's input and output, and where the application keeps them.
struct Form {
  std::vector<int64_t> in{5, 64}, out{5, 64};
  Place in_place = Place::kDevice, out_place = Place::kDevice;
  bool bound = false;  // to a binding, anew for each Run, also what is in host memory; in device memory they always are
};

// Buffers and Runs on them on a given stream; nothing here waits but reading.
class Lane {
 public:
  Lane(Ort::Session& session, Ort::SyncStream& stream, Form form = {});
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  // Produces an input of this value everywhere, works, and reads the output.
  std::vector<float> Run(float value) {
    return Run(value, [&] { Enqueue(); });
  }
  std::vector<float> Run(float value, const auto& work) {
    Produce(value);
    work();
    return Read();
  }
  const Form& form() const { return form_; }
  // The Run alone.
  void Enqueue();

 private:
  void Bind();
  void Produce(float value);
  std::vector<float> Read();

  Ort::Session& session_;
  void* handle_;
  const Form form_;
  Ort::IoBinding binding_;
  std::string in_name_, out_name_;
  bool is_on_device_ = false;
  float *x_ = nullptr, *y_ = nullptr;
  Ort::Value input_{nullptr}, output_{nullptr};
  Ort::RunOptions options_;
};

}  // namespace cudaep::stream_host
