// Copies a tensor that is moved round along its axes, and has its elements in another order before and behind that: the
// cyclic shift of an image together with the cutting of it into windows, or with putting windows together again.
#pragma once

#include <cstdint>

#include "core/dims.h"
#include "device/device.h"

namespace cudaep::kernels {

inline constexpr int kMostRolledAxes = 8;
inline constexpr int kMostRolledAtoms = 12;

// What a copy is made of. The tensor that is moved round has axes `dims`, and element i of an axis is element
// (i + shift) mod size of it. An axis is a product of atoms: in the input those of `source_dims`, as they lie in
// memory, put in the order `source_perm`; in the output those of `target_dims`, which `target_perm` puts in the order
// in which they are to lie. Each axis is some atoms next to each other, of each side.
struct RolledDims {
  Dims source_dims, source_perm;
  Dims dims, shifts;
  Dims target_dims, target_perm;
};

// An atom of an axis: of the output, `behind` output units lie inside of it; of the input, `inner` positions of the
// axis do.
struct RolledAtom {
  int64_t size = 1, behind = 1, inner = 1, stride = 1;
};

struct RolledAxis {
  int64_t size = 1, shift = 0;
  int first_target = 0, targets = 0, first_source = 0, sources = 0;
};

// Elements; atoms of an axis are stored outermost first.
struct RolledCopy {
  int64_t elems = 0;
  int elem_bytes = 1;
  int widest_bytes = 1;  // what sizes allow; addresses may allow less
  int64_t run = 1;       // elements that lie next to each other on both sides
  int axes = 0;
  RolledAxis axis[kMostRolledAxes];
  RolledAtom target[kMostRolledAtoms], source[kMostRolledAtoms];
};

// kInvalidArgument where the lists do not fit each other, kNotSupported for more axes or atoms than there is room for.
Result<RolledCopy> MakeRolledCopy(const RolledDims& dims, size_t elem_bytes);

// Buffers must not overlap. An empty tensor launches nothing.
Status LaunchRolledCopy(const RolledCopy& copy, const void* in, void* out, device::Stream stream);

}  // namespace cudaep::kernels
