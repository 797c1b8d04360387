// Owners and builders of cuDNN's backend descriptors.
//
// A descriptor is created, gets its attributes, is finalised and cannot change afterwards.
// Threads: a finalised descriptor may be read by many threads.
#pragma once

#include <span>

#include "core/unique_handle.h"
#include "lib/cuda/cudnn_api.h"

namespace cudaep::dnn {

struct DescriptorTraits {
  using Type = cudnnBackendDescriptor_t;
  static Type Null() { return nullptr; }
  static void Release(Type descriptor) { LoadedCudnn()->cudnnBackendDestroyDescriptor(descriptor); }
};
using Descriptor = UniqueHandle<DescriptorTraits>;

// The attribute type that goes with a C++ type. void* stands for a descriptor; tensor addresses are set elsewhere.
template <class T>
inline constexpr cudnnBackendAttributeType_t kAttributeType = CUDNN_TYPE_BACKEND_DESCRIPTOR;
template <>
inline constexpr cudnnBackendAttributeType_t kAttributeType<int64_t> = CUDNN_TYPE_INT64;
template <>
inline constexpr cudnnBackendAttributeType_t kAttributeType<bool> = CUDNN_TYPE_BOOLEAN;
template <>
inline constexpr cudnnBackendAttributeType_t kAttributeType<float> = CUDNN_TYPE_FLOAT;
template <>
inline constexpr cudnnBackendAttributeType_t kAttributeType<double> = CUDNN_TYPE_DOUBLE;
template <>
inline constexpr cudnnBackendAttributeType_t kAttributeType<cudnnHandle_t> = CUDNN_TYPE_HANDLE;
template <>
inline constexpr cudnnBackendAttributeType_t kAttributeType<cudnnDataType_t> = CUDNN_TYPE_DATA_TYPE;
template <>
inline constexpr cudnnBackendAttributeType_t kAttributeType<cudnnConvolutionMode_t> = CUDNN_TYPE_CONVOLUTION_MODE;
template <>
inline constexpr cudnnBackendAttributeType_t kAttributeType<cudnnPointwiseMode_t> = CUDNN_TYPE_POINTWISE_MODE;
template <>
inline constexpr cudnnBackendAttributeType_t kAttributeType<cudnnBackendHeurMode_t> = CUDNN_TYPE_HEUR_MODE;

// Creates a descriptor and sets its attributes in a chain; the first failure is kept and ends the work.
class DescriptorBuilder {
 public:
  DescriptorBuilder(const CudnnApi& api, cudnnBackendDescriptorType_t type, std::string_view what);

  template <class T>
  DescriptorBuilder& Set(cudnnBackendAttributeName_t name, const T& value) {
    return SetRaw(name, kAttributeType<T>, 1, &value);
  }
  DescriptorBuilder& Set(cudnnBackendAttributeName_t name, const Descriptor& value) { return Set(name, value.get()); }
  DescriptorBuilder& SetArray(cudnnBackendAttributeName_t name, std::span<const int64_t> values) {
    return SetRaw(name, CUDNN_TYPE_INT64, static_cast<int64_t>(values.size()), values.data());
  }
  DescriptorBuilder& SetRaw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                            const void* values);

  // Finalises and hands the descriptor over.
  Result<Descriptor> Finish();

 private:
  const CudnnApi& api_;
  std::string_view what_;  // for error texts
  Descriptor descriptor_;
  Status status_;
};

// An empty descriptor for results that the library fills in.
Result<Descriptor> CreateDescriptor(const CudnnApi& api, cudnnBackendDescriptorType_t type);

}  // namespace cudaep::dnn
