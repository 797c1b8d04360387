// The matrix product of MatMul and its like, and the base of operators that do more with one (normed_matmul.cc,
// gated_matmul.cc).
#pragma once

#include "ops/gemm/gemm_plan.h"
#include "ops/gemm/matrix_product.h"
#include "ops/operator.h"

namespace cudaep::ops {

struct MatMulPlan : Plan {
  MatrixProduct product;
  std::vector<GemmOffsets> launches;  // in bytes
};

class MatMul : public Operator {
 public:
  enum Input : int { kA, kB, kBias, kResidual };

  static Result<std::unique_ptr<MatMul>> Create(const OpInfo& info);

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override;
  Result<PlanPtr> MakePlan(const PlanContext& context) const override;
  Result<size_t> PackedBytes(int index, const TensorView& weight) const override;
  Status Pack(int index, const TensorView& weight, void* packed, StreamContext& runtime) const override;
  LibrarySet libraries() const override;
  Status Enqueue(const Plan& plan, const OpContext& context) const override;

 protected:
  // Attributes and inputs up to the residual. `many`: MayBeShort also where the model states many rows.
  Status Read(const OpInfo& info, bool many = false);

  // Whether it is A times B, of which B alone may be turned.
  bool IsPlain() const {
    return epilogue_.alpha == 1.0f && !a_.transpose && !a_.transpose_batch && !b_.transpose_batch;
  }

  DataType type_ = DataType::kFloat;
  Epilogue epilogue_;
  OperandForm a_, b_;
  ProductOptions options_;
};

}  // namespace cudaep::ops
