#include "kernels/quant/code_rounding.h"

namespace cudaep::kernels {

CodeRounding CodeRounding::Of(const CodeCoding& coding) {
  CodeRounding to{.coding = coding};
  const auto reciprocal = CodeReciprocalOf(coding.scale);
  to.has_reciprocal = reciprocal.has_value();
  if (reciprocal) to.reciprocal = *reciprocal;
  to.least = -static_cast<float>(coding.above_lowest) * coding.scale;
  to.most = static_cast<float>(255 - coding.above_lowest) * coding.scale;
  return to;
}

}  // namespace cudaep::kernels
