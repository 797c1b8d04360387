// A product with weights of 2, 4 or 8 bits as a part of an operator (MatMulNBits, the regions' GatedMatMulNBits):
// attributes, shapes, packed constants, and the choice between the kernels of kernels/quant/matmul_nbits.h and the
// library's product with the weights as a matrix.
// Threads: immutable after Make.
#pragma once

#include <optional>
#include <utility>

#include "kernels/quant/matmul_nbits.h"
#include "ops/gemm/matrix_product.h"
#include "ops/operator.h"

namespace cudaep::ops {

// Which inputs of the node are the product's; -1: it never has one.
struct NBitsInputs {
  int a = 0, b = -1, scales = -1, zero_points = -1;
  int groups = -1, bias = -1;
};

// How a product of so many rows runs; its scratch memory is part of a plan's.
struct NBitsWay {
  bool tensor_cores = false;
  // For many rows: the weights as a matrix, and the library's product with it.
  std::optional<MatrixProduct> product;
  size_t matrix = 0, product_workspace = 0;
};

class NBitsProduct {
 public:
  // By the attributes K, N, bits and block_size.
  static Result<NBitsProduct> Make(const OpInfo& info, const NBitsInputs& at);

  // Of y; the product's constants have the elements that they must have then.
  Status InferShape(TensorViews inputs, Shape& y) const;

  kernels::NBitsZeroPoint zero_point() const { return problem_.zero_point; }

  // As Operator has them; for an input that is none of these constants, 0.
  Result<size_t> PackedBytes(int index, const TensorView& weight) const;
  Status Pack(int index, const TensorView& weight, void* packed, StreamContext& runtime) const;

  // For y's rows, with the constants as they lie in memory.
  kernels::MatMulNBits Problem(TensorViews inputs, const Shape& y) const;
  kernels::MatMulNBitsPointers Pointers(const OpContext& context, void* y) const;

  // Adds the scratch memory to the plan's.
  Result<NBitsWay> MakeWay(const PlanContext& context, Plan& plan) const;
  Status Enqueue(const NBitsWay& way, const kernels::MatMulNBits& problem, const kernels::MatMulNBitsPointers& at,
                 const OpContext& context) const;

 private:
  std::pair<int64_t, size_t> UnitsOfColumn(int index) const;

  kernels::MatMulNBits problem_;  // without m
  NBitsInputs at_;
  ProductOptions options_;
};

}  // namespace cudaep::ops
