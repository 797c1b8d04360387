#include "kernels/resize/planes.h"

namespace cudaep::kernels {

std::optional<ResizePlanes> AsPlanes(const ResizeShape& shape) {
  ResizePlanes form;
  int d = 0;
  if (!shape.dim[0].scaled) form.inner = shape.dim[d++].in;
  const int scaled = d;
  while (d < shape.rank && shape.dim[d].scaled) ++d;
  if (d - scaled > 2) return std::nullopt;
  if (d - scaled == 2 || (d - scaled == 1 && form.inner == 1)) form.column = shape.dim[scaled];
  if (d - scaled == 2) form.row = shape.dim[scaled + 1];
  if (d - scaled == 1 && form.inner != 1) form.row = shape.dim[scaled];
  if (d < shape.rank) form.planes = shape.dim[d++].in;
  if (d < shape.rank) return std::nullopt;
  if (!form.row.scaled) {  // planes of one row are rows of one plane
    form.row.in = form.row.out = form.planes;
    form.planes = 1;
  }
  return form;
}

}  // namespace cudaep::kernels
