#include "kernels/elementwise/binary_families.h"
#include "kernels/elementwise/functor_table.cuh"

namespace cudaep::kernels {
namespace {

struct And {
  static constexpr std::string_view kName = "And";
  static constexpr DataTypeSet kTypes = DataType::kBool;
  __device__ __forceinline__ bool operator()(bool a, bool b) const { return a && b; }
};

struct Or {
  static constexpr std::string_view kName = "Or";
  static constexpr DataTypeSet kTypes = DataType::kBool;
  __device__ __forceinline__ bool operator()(bool a, bool b) const { return a || b; }
};

struct Xor {
  static constexpr std::string_view kName = "Xor";
  static constexpr DataTypeSet kTypes = DataType::kBool;
  __device__ __forceinline__ bool operator()(bool a, bool b) const { return a != b; }
};

}  // namespace

BinaryKernel FindLogicKernel(std::string_view functor, DataType type) {
  return FindBinaryIn<And, Or, Xor>(functor, type);
}

}  // namespace cudaep::kernels
