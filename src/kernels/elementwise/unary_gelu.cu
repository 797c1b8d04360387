#include "kernels/elementwise/functor_table.cuh"
#include "kernels/elementwise/gelu.cuh"
#include "kernels/elementwise/unary_families.h"

namespace cudaep::kernels {
namespace {

struct Gelu : GeluByErf {
  static constexpr std::string_view kName = "Gelu";
  static constexpr DataTypeSet kTypes = kFloatTypes;
};

struct FastGelu : GeluByTanh {
  static constexpr std::string_view kName = "FastGelu";
  static constexpr DataTypeSet kTypes = kFloatTypes;
};

}  // namespace

UnaryKernel FindGeluKernel(std::string_view functor, DataType type) {
  return FindUnaryIn<Gelu, FastGelu>(functor, type);
}

}  // namespace cudaep::kernels
