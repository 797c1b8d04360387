// Checks of GEMM and convolution problems that every implementation of blas.h and dnn.h makes before it plans.
//
// Pure; kInvalidArgument says which field is wrong. After a check passed, sizes and strides need no further doubt.
#pragma once

#include <cstdint>
#include <string>

#include "core/status.h"
#include "lib/blas.h"
#include "lib/dnn.h"

namespace cudaep::lib {

// Parts of a problem's text: empty for what is as by default, scales by their bits.
std::string EpilogueText(const Epilogue& epilogue);
std::string NumericsText(DataType type, bool allow_tf32, bool deterministic);

}  // namespace cudaep::lib

namespace cudaep::blas {

Status CheckProblem(const GemmProblem& problem);

// One line that holds every field of the problem: for error texts, and as its identity in a plan store.
std::string ProblemText(const GemmProblem& problem);

// Elements from the first to the last of each tensor of a checked problem; gaps between rows and batches count.
struct GemmSizes {
  int64_t a = 0, b = 0, c = 0;
};
GemmSizes SizesOf(const GemmProblem& problem);

// Whether the bits of the result depend on the algorithm but must not: integers are exact by any.
bool IsAlgorithmFixed(const GemmProblem& problem);

// The bits that any address of a call has: the low ones tell what all are aligned to. Of bias and residual only those
// that the library reads.
uintptr_t AddressBits(const GemmPointers& at, bool has_bias, bool has_residual);

}  // namespace cudaep::blas

namespace cudaep::dnn {

Status CheckProblem(const ConvProblem& problem);
std::string ProblemText(const ConvProblem& problem);

// The same of tensors without gaps.
ConvProblem WithoutParts(ConvProblem problem);

// Elements of x, w and y of a checked problem.
struct ConvSizes {
  int64_t x = 0, w = 0, y = 0;
};
ConvSizes SizesOf(const ConvProblem& problem);

}  // namespace cudaep::dnn
