// What libcublasLt.so.13 of fake_cublaslt.cc was asked, and what it shall answer.
#pragma once

#include <cstdint>
#include <vector>

#include "cublasLt.h"

struct FakeCublasLt {
  struct Question {  // to the heuristic, or a check of an algorithm
    uint64_t alignment = 0, bias = 0;
  };
  struct Call {
    uint64_t algorithm = 0, bias = 0;
    const void* c = nullptr;
  };
  std::vector<Question> asked;    // each is answered by one algorithm, named by the alignment it was asked for
  std::vector<Question> checked;  // alignment is the algorithm's name
  std::vector<Call> calls;
  std::vector<cublasStatus_t> answers;  // of the next calls; success where it is empty
};

extern "C" FAKE_EXPORT FakeCublasLt* fakeCublasLt();
