#include <algorithm>
#include <limits>
#include <numeric>

#include "core/checked_math.h"
#include "device/device_info.h"
#include "kernels/index_limit.h"
#include "kernels/norm/group_norm_input.h"
#include "kernels/pack.h"
#include "kernels/reduce/reduce.h"

namespace cudaep::kernels {
namespace {

// By measurement on an H200, of images as diffusion models have them.
constexpr int64_t kWholeHeld = 8;                    // packs of a thread that reads a slice once, at most
constexpr int64_t kWholeBytes = int64_t{8} << 20;    // of all images, at most, that are read once
constexpr int64_t kPartBlocks = 3;                   // of the two launches, for each multiprocessor
constexpr int64_t kRowBytes = 64, kPartBytes = 256;  // of a slice's pixel, at least, where there are as many
// Slices of the two launches, which are widened within these numbers: each of their blocks merges what all the blocks
// of a slice left.
constexpr int64_t kFewSlices = 16, kManySlices = 128;

// What kernels number in 32 bits, whose threads go up to a round of a block beyond the end.
constexpr int64_t kMostElems = (int64_t{1} << 31) - (int64_t{1} << 20);

struct View {
  int64_t images, pixels, channels, group;
};

int PackOf(DataType type) { return PackElems(SizeOf(type)); }

// As kernels see the problem; nothing where it is not made of packs.
std::optional<View> SeeAsPacks(const GroupNormProblem& problem) {
  const int64_t group = problem.channels / problem.groups, pack = PackOf(problem.type);
  if (problem.channels_last) {
    if (!HasGroupPacks(problem.type, problem.channels, problem.groups)) return std::nullopt;
    return View{problem.batch, problem.pixels, problem.channels, group};
  }
  if (problem.pixels % pack != 0) return std::nullopt;
  return View{problem.batch * problem.groups, group * problem.pixels / pack, pack, pack};
}

// Slices of the fewest groups that make whole packs, doubled while `wide` of the plan says so. False where a block has
// no threads for a pixel of one.
template <class Wide>
bool CutIntoSlices(const View& view, GroupNormPlan& plan, Wide wide) {
  const int64_t all_groups = view.channels / view.group;
  const auto cut = [&](int64_t groups) {
    if (groups > kMostSliceGroups || all_groups % groups != 0 || groups * view.group > kGroupThreads * plan.pack) {
      return false;
    }
    plan.slices = all_groups / groups;
    plan.slice_groups = static_cast<int32_t>(groups);
    plan.packs = static_cast<int32_t>(groups * view.group / plan.pack);
    return true;
  };
  if (!cut(plan.pack / std::gcd(view.group, int64_t{plan.pack}))) return false;
  while (wide() && cut(2 * int64_t{plan.slice_groups})) {
  }
  plan.rows = static_cast<int32_t>(std::min<int64_t>(kGroupThreads / plan.packs, view.pixels));
  plan.threads = static_cast<unsigned>(AlignUp<int64_t>(int64_t{plan.rows} * plan.packs, 32));
  return true;
}

void ShareOut(int64_t blocks, GroupNormPlan& plan) {
  plan.block_pixels = static_cast<int32_t>(CeilDiv<int64_t>(plan.pixels, blocks));
  plan.blocks = static_cast<int32_t>(CeilDiv<int64_t>(plan.pixels, plan.block_pixels));
}

// Blocks for a slice that give each multiprocessor one, all together, if threads then have two packs each.
int64_t WholeBlocks(const GroupNormPlan& plan, const device::DeviceInfo& device) {
  const int64_t wanted = CeilDiv<int64_t>(std::max(device.multiprocessors, 1), plan.images * plan.slices);
  const int64_t most = device.simulated || device.major < 9 ? 1 : kGroupCluster;
  return std::min({wanted, most, CeilDiv<int64_t>(CeilDiv<int64_t>(plan.pixels, plan.rows), 2)});
}

}  // namespace

bool HasGroupPacks(DataType type, int64_t channels, int64_t groups) {
  if (!kGroupNormTypes.Contains(type)) return false;
  const int64_t group = channels / groups, pack = PackOf(type);
  return channels % pack == 0 && (group >= pack || group * 2 == pack);
}

std::optional<GroupNormPlan> PlanGroupNorm(const GroupNormProblem& problem, const device::DeviceInfo& device) {
  const std::optional<View> seen = kGroupNormTypes.Contains(problem.type) ? SeeAsPacks(problem) : std::nullopt;
  if (!seen) return std::nullopt;
  const View& view = *seen;
  const auto bytes = static_cast<int64_t>(SizeOf(problem.type));
  GroupNormPlan plan;
  plan.pack = PackOf(problem.type);
  const int64_t most = std::min(index_limit, kMostElems);
  if (view.pixels > most / view.channels || problem.batch > most / problem.groups) return std::nullopt;
  plan.images = view.images;
  plan.pixels = static_cast<int32_t>(view.pixels);
  plan.channels = static_cast<int32_t>(view.channels);
  plan.group = static_cast<int32_t>(view.group);
  const auto row_bytes = [&] { return int64_t{plan.packs} * static_cast<int64_t>(kPackBytes); };
  if (!CutIntoSlices(view, plan, [&] { return row_bytes() < kRowBytes; })) return std::nullopt;
  const auto share_out = [&](int64_t blocks) {
    ShareOut(blocks, plan);
    return plan.images * plan.slices * plan.blocks <= most ? std::optional(plan) : std::nullopt;
  };
  const int64_t whole = WholeBlocks(plan, device), held = CeilDiv<int64_t>(CeilDiv(view.pixels, whole), plan.rows);
  if (held <= kWholeHeld && plan.images * view.pixels * view.channels * bytes <= kWholeBytes) {
    plan.held = held <= 4 ? 4 : 8;
    return share_out(whole);
  }
  CutIntoSlices(view, plan, [&] {
    const int64_t slices = plan.images * plan.slices;
    return row_bytes() < kRowBytes || (slices > kFewSlices && (row_bytes() < kPartBytes || slices > kManySlices));
  });
  const int64_t wanted = kPartBlocks * std::max(device.multiprocessors, 1) / (plan.images * plan.slices);
  return share_out(std::clamp<int64_t>(wanted, 1, CeilDiv<int64_t>(plan.pixels, plan.rows)));
}

size_t GroupNormPlan::shared_bytes() const {
  return size_t{2} * static_cast<size_t>(packs) * static_cast<size_t>(EntryRows(rows)) * 2 * sizeof(float);
}

GroupNormInput MakeGroupNormInput(const GroupNormArgs& args) {
  const GroupNormProblem& problem = *args.problem;
  const GroupNormPlan& plan = *args.plan;
  const auto divider = [](int64_t by) { return FastDivider(static_cast<uint32_t>(by)); };
  const int64_t group = problem.channels / problem.groups;
  const bool aligned = IsAligned(args.scale, kPackBytes) && IsAligned(args.bias, kPackBytes);
  return {.scale = args.scale,
          .bias = args.bias,
          .affine_type = args.affine_type,
          .swish = args.swish,
          .affine_packs = problem.channels_last && args.affine_type == problem.type && aligned,
          .pixels = plan.pixels,
          .channels = plan.channels,
          .group = plan.group,
          .packs = plan.packs,
          .rows = plan.rows,
          .slice_groups = plan.slice_groups,
          .block_pixels = plan.block_pixels,
          .blocks = plan.blocks,
          .by_blocks = divider(plan.blocks),
          .by_packs = divider(plan.packs),
          .by_rows = divider(plan.rows),
          .by_group = divider(plan.group),
          .by_slices = divider(plan.slices),
          .by_entry_rows = divider(EntryRows(plan.rows)),
          .by_group_images = divider(problem.groups),
          .by_channel_packs = divider(std::max<int64_t>(problem.pixels / plan.pack, 1)),
          .group_channels = static_cast<int32_t>(group),
          .epsilon = static_cast<float>(args.epsilon),
          .inverse_elems = static_cast<float>(1.0 / static_cast<double>(group * problem.pixels))};
}

Status LaunchGroupNorm(const GroupNormArgs& args, device::Stream stream) {
  return args.plan->held != 0 ? LaunchGroupNormWhole(args, stream) : LaunchGroupNormParts(args, stream);
}

}  // namespace cudaep::kernels
