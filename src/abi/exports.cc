// The two functions the library exports.
#include "abi/factory.h"
#include "abi/host.h"

#define CUDAEP_EXPORT extern "C" __attribute__((visibility("default")))

CUDAEP_EXPORT OrtStatus* CreateEpFactories(const char* registration_name, const OrtApiBase* api_base,
                                           const OrtLogger* logger, OrtEpFactory** factories, size_t max_factories,
                                           size_t* factory_count) {
  using cudaep::abi::Factory;
  *factory_count = 0;
  if (OrtStatus* error = cudaep::abi::NegotiateHost(api_base)) return error;
  if (cudaep::abi::Host().ort == nullptr) return nullptr;  // a host without any C API: nothing can be said to it
  if (max_factories < 1) {
    return cudaep::abi::ToOrt(cudaep::InvalidArgument("the host offers no room for a factory"));
  }
  try {
    factories[0] = new Factory(registration_name, logger);
    *factory_count = 1;
    return nullptr;
  } catch (...) {
    return cudaep::abi::ToOrt(cudaep::OutOfMemory("host memory is exhausted"));
  }
}

CUDAEP_EXPORT OrtStatus* ReleaseEpFactory(OrtEpFactory* factory) {
  delete static_cast<cudaep::abi::Factory*>(factory);
  return nullptr;
}
