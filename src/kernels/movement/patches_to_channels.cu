#include "kernels/common/raw_pack.cuh"
#include "kernels/common/whole_parts.h"
#include "kernels/fast_divide.h"
#include "kernels/movement/patches_to_channels.h"

namespace cudaep::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kElems = PackElems(sizeof(uint16_t));

struct Args {
  FastDivider packs, columns, rows;  // of output pixels: channels, and where the patch lies
  FastDivider pieces, patch_rows;    // of a patch: of one row, and rows of one channel
  int64_t channels, height, width, first_image;
  uint32_t used;  // pieces that are not filled
  uint32_t threads;
  bool in_packs;
};

// kPiece: neighbours in a row of the image that are read at once.
template <int kPiece>
__global__ void __launch_bounds__(kThreads)
    PatchesToChannelsKernel(const uint16_t* x, uint16_t* y, __grid_constant__ const Args args) {
  device::GridDependencyWait();
  const uint32_t thread = blockIdx.x * kThreads + threadIdx.x;
  if (thread >= args.threads) return;
  uint32_t pack, column, row;
  const int64_t image =
      args.first_image +
      args.rows.DivideWithRemainder(
          args.columns.DivideWithRemainder(args.packs.DivideWithRemainder(thread, &pack), &column), &row);
  const int64_t patch_w = int64_t{args.pieces.divisor} * kPiece, patch_h = args.patch_rows.divisor;
  const uint16_t* const patch =
      x + (image * args.channels * args.height + row * patch_h) * args.width + column * patch_w;
  Pack<uint16_t, kElems> out{};
#pragma unroll
  for (int i = 0; i < kElems / kPiece; ++i) {
    const uint32_t piece = pack * (kElems / kPiece) + static_cast<uint32_t>(i);
    if (piece >= args.used) break;
    uint32_t part, line;
    const uint32_t channel = args.patch_rows.DivideWithRemainder(args.pieces.DivideWithRemainder(piece, &part), &line);
    const uint16_t* const from = patch + (channel * args.height + line) * args.width + part * kPiece;
    const auto read = Unpack<uint16_t, kPiece>(LoadRaw<kPiece>(from));
#pragma unroll
    for (int k = 0; k < kPiece; ++k) out.value[i * kPiece + k] = read.value[k];
  }
  const int64_t pixels = int64_t{args.rows.divisor} * args.columns.divisor;
  uint16_t* const to = y + (args.first_image * pixels * args.packs.divisor + thread) * kElems;
  if (args.in_packs) return StorePack(to, out);
#pragma unroll
  for (int i = 0; i < kElems; ++i) to[i] = out.value[i];
}

// The largest piece that starts where a load of it may.
int PieceOf(const PatchesToChannels& s, const void* x) {
  for (const int piece : {8, 4, 2}) {
    if (s.patch_w % piece == 0 && s.width % piece == 0 && IsAligned(x, piece * sizeof(uint16_t))) return piece;
  }
  return 1;
}

}  // namespace

Status LaunchPatchesToChannels(const PatchesToChannels& s, const void* x, void* y, device::Stream stream) {
  const int64_t packs = s.channels_out / kElems, rows = s.height / s.patch_h, columns = s.width / s.patch_w;
  const int64_t image_threads = rows * columns * packs;
  if (image_threads == 0) return Status::Ok();
  const int piece = PieceOf(s, x);
  const auto kernel = piece == 8   ? PatchesToChannelsKernel<8>
                      : piece == 4 ? PatchesToChannelsKernel<4>
                      : piece == 2 ? PatchesToChannelsKernel<2>
                                   : PatchesToChannelsKernel<1>;
  const auto divider = [](int64_t value) { return FastDivider(static_cast<uint32_t>(value)); };
  Args args{.packs = divider(packs),
            .columns = divider(columns),
            .rows = divider(rows),
            .pieces = divider(s.patch_w / piece),
            .patch_rows = divider(s.patch_h),
            .channels = s.channels,
            .height = s.height,
            .width = s.width,
            .used = static_cast<uint32_t>(s.channels * s.patch_h * s.patch_w / piece),
            .in_packs = IsAligned(y, kPackBytes)};
  return LaunchWholeParts(
      s.batch, image_threads, kThreads, [&](const device::LaunchConfig& config, int64_t image, uint32_t threads) {
        args.first_image = image;
        args.threads = threads;
        return device::Launch(kernel, config, stream, static_cast<const uint16_t*>(x), static_cast<uint16_t*>(y), args);
      });
}

}  // namespace cudaep::kernels
