#include "kernels/elementwise/binary_families.h"

namespace cudaep::kernels {

BinaryKernel FindBinaryKernel(std::string_view functor, DataType type) {
  for (auto find :
       {FindArithmeticKernel, FindBinaryActivationKernel, FindComparisonKernel, FindDivisionKernel, FindLogicKernel}) {
    if (BinaryKernel kernel = find(functor, type)) return kernel;
  }
  return nullptr;
}

}  // namespace cudaep::kernels
