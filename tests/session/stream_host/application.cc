#include "application.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace cudaep::stream_host {
namespace {

int64_t CountOf(const std::vector<int64_t>& dims) {
  int64_t count = 1;
  for (const int64_t dim : dims) count *= dim;
  return count;
}

Ort::MemoryInfo InfoOf(Place place) {
  if (place == Place::kHost) return HostMemory();
  return DeviceMemory(OrtDeviceAllocator,
                      place == Place::kPinned ? OrtDeviceMemoryType_HOST_ACCESSIBLE : OrtDeviceMemoryType_DEFAULT);
}

float* Allocate(const std::vector<int64_t>& dims, Place place) {
  const auto count = static_cast<size_t>(CountOf(dims));
  if (place == Place::kHost) return new float[count]();
  if (place == Place::kDevice) return static_cast<float*>(probe->malloc(count * sizeof(float)));
  return static_cast<float*>(env.GetSharedAllocator(InfoOf(place)).Alloc(count * sizeof(float)));
}

void Free(float* data, Place place) {
  if (place == Place::kHost) delete[] data;
  if (place == Place::kDevice) probe->free(data);
  if (place == Place::kPinned) env.GetSharedAllocator(InfoOf(place)).Free(data);
}

Ort::Value ValueOf(float* data, const std::vector<int64_t>& dims, Place place) {
  return Ort::Value::CreateTensor<float>(InfoOf(place), data, static_cast<size_t>(CountOf(dims)), dims.data(),
                                         dims.size());
}

}  // namespace

Probe::Probe(const char* path) : library(dlopen(path, RTLD_NOW)) {
  if (library == nullptr) Fail(dlerror());
  const auto load = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    if (function == nullptr) Fail(std::string(name) + " is missing");
  };
  load(counters, "ProbeCounters");
  load(stream_create, "ProbeStreamCreate");
  load(stream_destroy, "ProbeStreamDestroy");
  load(synchronize, "ProbeStreamSynchronize");
  load(malloc, "ProbeMalloc");
  load(free, "ProbeFree");
  load(produce, "ProbeProduce");
  load(read, "ProbeRead");
  load(bytes_in_use, "ProbeBytesInUse");
  load(capture_begin, "ProbeCaptureBegin");
  load(capture_end, "ProbeCaptureEnd");
  load(graph_launch, "ProbeGraphLaunch");
  load(graph_destroy, "ProbeGraphDestroy");
}

uint64_t Probe::Waits() const {
  uint64_t values[18];
  counters(values);
  return values[6] + values[7] + values[8];
}

void Check(const char* error) {
  if (error != nullptr) Fail(error);
}

Ort::Session Open(const std::string& model, bool cpu_too, const char* option) {
  Ort::SessionOptions options = AllNodesOn(env, ep_device);
  if (cpu_too) options.AddConfigEntry(kNoCpuFallback, "0");
  if (option != nullptr) options.AddConfigEntry((std::string("ep.cuda.") + option).c_str(), "1");
  return Ort::Session(env, (models + "/" + model + ".onnx").c_str(), options);
}

Ort::SyncStream OwnStream() { return MakeStream(ep_device); }
Ort::SyncStream Wrap(void* stream) {
  return MakeStream(ep_device, {{"user_compute_stream", std::to_string(reinterpret_cast<uintptr_t>(stream))}});
}

Lane::Lane(Ort::Session& session, Ort::SyncStream& stream, Form form)
    : session_(session),
      handle_(stream.GetHandle()),
      form_(std::move(form)),
      binding_(session),
      x_(Allocate(form_.in, form_.in_place)),
      y_(Allocate(form_.out, form_.out_place)),
      input_(ValueOf(x_, form_.in, form_.in_place)),
      output_(ValueOf(y_, form_.out, form_.out_place)) {
  Ort::AllocatorWithDefaultOptions allocator;
  in_name_ = session.GetInputNameAllocated(0, allocator).get();
  out_name_ = session.GetOutputNameAllocated(0, allocator).get();
  is_on_device_ = form_.in_place == Place::kDevice && form_.out_place == Place::kDevice;
  if (is_on_device_) Bind();
  options_.AddConfigEntry("disable_synchronize_execution_providers", "1");
  options_.SetSyncStream(stream);
}

Lane::~Lane() {
  probe->synchronize(handle_);
  Free(x_, form_.in_place);
  Free(y_, form_.out_place);
}

void Lane::Bind() {
  binding_.BindInput(in_name_.c_str(), input_);
  binding_.BindOutput(out_name_.c_str(), output_);
}

void Lane::Enqueue() {
  if (form_.bound) Bind();
  if (form_.bound || is_on_device_) return session_.Run(options_, binding_);
  const char *const in = in_name_.c_str(), *const out = out_name_.c_str();
  session_.Run(options_, &in, &input_, 1, &out, &output_, 1);
}

void Lane::Produce(float value) {
  const int64_t count = CountOf(form_.in);
  if (form_.in_place == Place::kDevice) return Check(probe->produce(handle_, x_, value, count));
  Check(probe->synchronize(handle_));  // a Run that is queued may read it still
  std::fill_n(x_, count, value);
}

std::vector<float> Lane::Read() {
  std::vector<float> result(static_cast<size_t>(CountOf(form_.out)));
  if (form_.out_place == Place::kDevice) {
    Check(probe->read(handle_, result.data(), y_, result.size() * sizeof(float)));
  } else {
    Check(probe->synchronize(handle_));
    std::memcpy(result.data(), y_, result.size() * sizeof(float));
  }
  return result;
}

}  // namespace cudaep::stream_host
