#include "ops/pool/pool_shape.h"

#include "core/checked_math.h"

namespace cudaep::ops {

Result<kernels::PoolShape> PoolShapeOf(const Window& w, DataType type, Dims x, bool channels_last) {
  const int64_t channels = channels_last ? x.back() : 1;
  kernels::PoolShape out;
  out.type = type;
  out.planes = channels_last ? x[0] : x[0] * x[1];
  if (!FitsInt32(channels)) return NotSupported("pooling over ", channels, " channels");
  out.channels = static_cast<int32_t>(channels);
  int64_t in_plane = 1, out_plane = channels;
  for (int d = 0; d < w.rank; ++d) {
    const size_t i = static_cast<size_t>(d);
    // The furthest position a window touches, from the first element of the padding on.
    const int64_t reach = w.in[i] + w.pad_begin[i] + w.pad_end[i] + w.span(d) + w.stride[i];
    if (!CheckedMultiply(in_plane, w.in[i], &in_plane) || !CheckedMultiply(out_plane, w.out[i], &out_plane) ||
        !FitsInt32(in_plane) || !FitsInt32(out_plane) || !FitsInt32(reach)) {
      return NotSupported("pooling over planes of more than 2^31 elements: spatial dimension ", d, " has ", w.in[i]);
    }
    const int at = d + 3 - w.rank;
    out.in[at] = static_cast<int32_t>(w.in[i]), out.out[at] = static_cast<int32_t>(w.out[i]);
    out.kernel[at] = static_cast<int32_t>(w.kernel[i]);
    out.stride[at] = static_cast<int32_t>(w.stride[i]), out.dilation[at] = static_cast<int32_t>(w.dilation[i]);
    out.pad_begin[at] = static_cast<int32_t>(w.pad_begin[i]), out.pad_end[at] = static_cast<int32_t>(w.pad_end[i]);
  }
  return out;
}

}  // namespace cudaep::ops
