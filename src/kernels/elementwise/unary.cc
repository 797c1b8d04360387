#include "kernels/elementwise/unary_families.h"

namespace cudaep::kernels {

UnaryKernel FindUnaryKernel(std::string_view functor, DataType type) {
  for (auto find : {FindActivationKernel, FindGeluKernel, FindMathKernel, FindPredicateKernel, FindRoundingKernel,
                    FindTrigonometryKernel}) {
    if (UnaryKernel kernel = find(functor, type)) return kernel;
  }
  return nullptr;
}

}  // namespace cudaep::kernels
