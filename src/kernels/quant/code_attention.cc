#include "kernels/quant/code_attention.h"

#include <algorithm>
#include <cmath>

#include "core/checked_math.h"
#include "device/device_info.h"
#include "kernels/attention/flash.h"
#include "kernels/gemm/warpgroup_tiles.h"

namespace cudaep::kernels {
namespace {

int64_t Blocks(const CodeAttention& p, int64_t rows) { return CeilDiv(p.queries, rows) * p.heads * p.batch; }

bool IsAligned(const CodeAttention& p, const CodeAttentionPointers& at) {
  uintptr_t bits = 0;
  for (const void* tensor : {at.q, at.k, at.v, static_cast<const void*>(at.y)}) {
    bits |= reinterpret_cast<uintptr_t>(tensor);
  }
  for (const AttentionStrides& strides : {p.q, p.k, p.v, p.y}) {
    bits |= static_cast<uintptr_t>(strides.batch | strides.head | strides.row);
  }
  return bits % kCodeAttentionPack == 0;
}

}  // namespace

bool TakesCodeAttention(const CodeAttention& p) {
  return p.head_size <= kCodeAttentionHead && p.head_size % kCodeAttentionPack == 0 &&
         FitsInt32(p.keys + kCodeWarpsKeys) && FitsInt32(Blocks(p, kMostWarps / 2 * kWarpRows));
}

bool TakesCodeHeads(const CodeAttention& p) {
  constexpr int64_t kMostOfGrid = 65535;  // of its y and z
  return p.keys > 0 && p.keys <= kCodeHeadsKeys && p.shares.least <= 0 && FitsInt32(p.queries + kCodeHeadsRows) &&
         p.heads <= kMostOfGrid && p.batch <= kMostOfGrid;
}

CodeAttentionKernel CodeAttentionKernelOf(const CodeAttention& p, const device::DeviceInfo& device) {
  if (HasWarpgroups(device) && TakesCodeHeads(p)) return CodeAttentionKernel::kWarpgroup;
  constexpr int64_t kFewBlocks = 2;  // of a multiprocessor, which takes three
  const bool few = Blocks(p, kMostWarps * kWarpRows) <= kFewBlocks * device.multiprocessors;
  const bool keys_for_both = p.keys > TileKeys(AttentionKernel::kTensorCores);
  return few && keys_for_both ? CodeAttentionKernel::kKeyWarps : CodeAttentionKernel::kWarps;
}

bool IsScaledIdle(const CodeAttention& p) {
  for (float code = p.scores.least; code <= p.scores.most; ++code) {
    if (std::clamp(std::nearbyint(code * p.scaled.factor), p.scaled.least, p.scaled.most) != code) return false;
  }
  return true;
}

Status LaunchCodeAttention(const CodeAttention& attention, const CodeAttentionPointers& at, device::Stream stream) {
  const bool of_warpgroup = attention.kernel == CodeAttentionKernel::kWarpgroup;
  if (of_warpgroup && !TakesCodeHeads(attention)) {
    return InvalidArgument("no kernel of warpgroups takes ", attention.batch, " x ", attention.heads, " heads, ",
                           attention.queries, " queries, ", attention.keys, " keys, shares from ",
                           attention.shares.least, " on");
  }
  if (attention.batch == 0 || attention.heads == 0 || attention.queries == 0 || attention.head_size == 0) {
    return Status::Ok();
  }
  const bool aligned = IsAligned(attention, at);
  return of_warpgroup && aligned ? LaunchCodeHeads(attention, at, stream)
                                 : LaunchCodeWarps(attention, at, aligned, stream);
}

}  // namespace cudaep::kernels
