// The driver's C interface for ctypes: build a node call by call, run it, read the result. tests/op/harness/driver.py
// is its only caller, and has the same list of functions.
//
// Every function takes valid handles and in-range indices; nothing else is checked. Text stays valid until the next
// call on the same handle.
#include <string>
#include <utility>

#include "device/device.h"
#include "host_run.h"
#include "registry_json.h"

namespace {

using namespace cudaep;        // NOLINT(google-build-using-namespace)
using namespace cudaep::test;  // NOLINT(google-build-using-namespace)

struct Job {
  explicit Job(Node described) : node(std::move(described)) {}
  Node node;
  RunResult result;
  std::string code_name;
};

Bytes Copy(const void* data, size_t bytes) {
  const auto* begin = static_cast<const std::byte*>(data);
  return bytes == 0 ? Bytes() : Bytes(begin, begin + bytes);
}

int Finish(Job* job, RunResult result) {
  job->result = std::move(result);
  job->code_name = StatusCodeName(job->result.status.code());
  return static_cast<int>(job->result.status.code());
}

const OutputTensor& Output(const Job* job, int launch, int index) {
  return job->result.launches[static_cast<size_t>(launch)][static_cast<size_t>(index)];
}

}  // namespace

#define CUDAEP_TEST_API extern "C" __attribute__((visibility("default")))

CUDAEP_TEST_API const char* cudaep_op_backend() { return device::BackendName(); }

// -1 when the driver cannot be asked.
CUDAEP_TEST_API int cudaep_op_device_count() {
  int count = 0;
  return device::GetDeviceCount(&count).ok() ? count : -1;
}

CUDAEP_TEST_API const char* cudaep_op_registry() {
  static const std::string* json = new std::string(RegistryJson());
  return json->c_str();
}

CUDAEP_TEST_API const char* cudaep_op_options() {
  static const std::string* json = new std::string(OptionsJson());
  return json->c_str();
}

CUDAEP_TEST_API Job* cudaep_op_new(const char* domain, const char* op_type, int since_version) {
  return new Job(Node(domain, op_type, since_version));
}

CUDAEP_TEST_API void cudaep_op_delete(Job* job) { delete job; }

CUDAEP_TEST_API void cudaep_op_set_int(Job* job, const char* name, int64_t value) {
  job->node.attributes[name] = value;
}
CUDAEP_TEST_API void cudaep_op_set_float(Job* job, const char* name, float value) {
  job->node.attributes[name] = value;
}
CUDAEP_TEST_API void cudaep_op_set_string(Job* job, const char* name, const char* value) {
  job->node.attributes[name] = std::string(value);
}
CUDAEP_TEST_API void cudaep_op_set_ints(Job* job, const char* name, const int64_t* values, size_t count) {
  job->node.attributes[name] = std::vector<int64_t>(values, values + count);
}
CUDAEP_TEST_API void cudaep_op_set_floats(Job* job, const char* name, const float* values, size_t count) {
  job->node.attributes[name] = std::vector<float>(values, values + count);
}

CUDAEP_TEST_API void cudaep_op_set_strings(Job* job, const char* name, const char* const* values, size_t count) {
  job->node.attributes[name] = std::vector<std::string>(values, values + count);
}
CUDAEP_TEST_API void cudaep_op_set_tensor(Job* job, const char* name, int type, const int64_t* dims, size_t rank,
                                          const void* data, size_t bytes) {
  job->node.attributes[name] =
      ops::HostTensor{.type = static_cast<DataType>(type), .dims = Shape(Dims(dims, rank)), .data = Copy(data, bytes)};
}

// 0, or -1 for an option that the driver does not know.
CUDAEP_TEST_API int cudaep_op_set_option(Job* job, const char* name, int64_t value) {
  return job->node.SetOption(name, value).ok() ? 0 : -1;
}

// `type` 0 adds an absent input. `replay_data` has the same size as `data`.
CUDAEP_TEST_API void cudaep_op_add_input(Job* job, int type, const int64_t* dims, size_t rank, const void* data,
                                         const void* replay_data, size_t bytes, int constant) {
  job->node.inputs.push_back({.type = static_cast<DataType>(type),
                              .dims = std::vector<int64_t>(dims, dims + rank),
                              .values = Copy(data, bytes),
                              .replay_values = Copy(replay_data, bytes),
                              .constant = constant != 0});
}

// `type` 0 adds an output that nobody uses.
CUDAEP_TEST_API void cudaep_op_add_output(Job* job, int type) {
  job->node.outputs.push_back(static_cast<DataType>(type));
}

// Returns a StatusCode. `share_input` and `share_output` name the buffer to share, -1 for none.
CUDAEP_TEST_API int cudaep_op_run(Job* job, int mode, int share_input, int share_output) {
  return Finish(job, Run(job->node, static_cast<Mode>(mode), {.input = share_input, .output = share_output}));
}
// The same with the operator that evaluates the node in host memory.
CUDAEP_TEST_API int cudaep_op_run_on_host(Job* job) { return Finish(job, RunOnHost(job->node)); }

CUDAEP_TEST_API const char* cudaep_op_code_name(const Job* job) { return job->code_name.c_str(); }

// Not terminated; empty after a success.
CUDAEP_TEST_API const char* cudaep_op_message(const Job* job, size_t* bytes) {
  *bytes = job->result.status.message().size();
  return job->result.status.message().data();
}
CUDAEP_TEST_API int cudaep_op_shared(const Job* job) { return job->result.shared ? 1 : 0; }
CUDAEP_TEST_API int cudaep_op_launches(const Job* job) { return static_cast<int>(job->result.launches.size()); }
CUDAEP_TEST_API int cudaep_op_output_rank(const Job* job, int launch, int index) {
  return Output(job, launch, index).shape.rank();
}
CUDAEP_TEST_API const int64_t* cudaep_op_output_dims(const Job* job, int launch, int index) {
  return Output(job, launch, index).shape.data();
}
CUDAEP_TEST_API const void* cudaep_op_output_data(const Job* job, int launch, int index, size_t* bytes) {
  const OutputTensor& output = Output(job, launch, index);
  *bytes = output.values.size();
  return output.values.data();
}
