// Products of up to 16 rows: C = activation(A * B^T + bias + residual), fp16 and bf16 with fp32 sums, by tensor cores.
//
// Such a product reads its weights once, and is as long as that and its launch take. So its kernels begin before their
// predecessor has ended and ask for the first weights meanwhile, since they never change. There are two: blocks of few
// columns and all of the inner dimension, up to 8 rows and as many inner elements as a block has registers for
// (narrow); and blocks of 64 columns, by stages in shared memory, whose inner dimension is cut among the blocks of a
// cluster until the grid fills the device. Sums are added in one order: results never differ from run to run.
#pragma once

#include <cstdint>

#include "core/data_type.h"
#include "core/epilogue.h"
#include "core/status.h"
#include "device/device.h"

namespace cudaep::kernels {

inline constexpr int64_t kFewRows = 16;
inline constexpr int kFewRowsPack = 8;  // elements that are moved at once: n and k are multiples of it
inline constexpr int kMostFewRowsSplits = 8;
inline constexpr int kStagedColumns = 64;
// Of narrow blocks.
inline constexpr int64_t kMostNarrowRows = 8;
inline constexpr int kMostNarrowInner = 2048, kMostNarrowColumns = 32;

struct FewRowsPlan {
  int columns = kStagedColumns;  // of a block; of a narrow one 8, 16, 24 or 32
  int splits = 1;                // staged blocks among which the inner dimension is cut: 1, 2, 4 or 8

  bool is_narrow() const { return columns != kStagedColumns; }
};

struct FewRowsProduct {
  DataType type = DataType::kFloat16;  // float16 or bfloat16
  int64_t m = 0, n = 0, k = 0;
  Epilogue epilogue;  // alpha 1; beta 0 or 1
};

struct FewRowsPointers {
  const void* a = nullptr;         // [m, k]
  const void* b = nullptr;         // [n, k]; nothing on the stream writes it
  void* c = nullptr;               // [m, n]; may be the residual
  const void* bias = nullptr;      // [n]; not read where the epilogue has none
  const void* residual = nullptr;  // [m, n]; likewise
};

bool TakesFewRows(const FewRowsProduct& product, const device::DeviceInfo& device);
// Narrow blocks where those are one for each multiprocessor at most.
FewRowsPlan PlanFewRows(const FewRowsProduct& product, const device::DeviceInfo& device);

// All tensors are aligned to 16 bytes. An empty result launches nothing.
Status LaunchFewRows(const FewRowsProduct& product, const FewRowsPlan& plan, const FewRowsPointers& at,
                     device::Stream stream);

}  // namespace cudaep::kernels
