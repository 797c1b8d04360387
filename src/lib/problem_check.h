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

}  // namespace cudaep::blas

namespace cudaep::dnn {

Status CheckProblem(const ConvProblem& problem);
std::string ProblemText(const ConvProblem& problem);

// Elements of x, w and y of a checked problem.
struct ConvSizes {
  int64_t x = 0, w = 0, y = 0;
};
ConvSizes SizesOf(const ConvProblem& problem);

}  // namespace cudaep::dnn
