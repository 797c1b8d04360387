#include <algorithm>

#include "core/checked_math.h"
#include "device/device_info.h"
#include "kernels/common/row_plan.h"
#include "kernels/norm/segment_cut.h"
#include "kernels/norm/segment_norm.h"

namespace cudaep::kernels {
namespace {

constexpr size_t kOtherSharedBytes = 1088;  // moments of warps and of the row, or of rows under way
// Slots for what comes next while a row is worked on, and chunks of a block that are worth another one to wait for.
// Measured on an H200: teams that hold two rows, and so meet more often, take 14% longer.
constexpr int64_t kSlotsAhead = 2, kFewChunks = 2;
// A segment's last piece may be a part of one: what must be there at least of all its pieces.
constexpr double kLeastOfPieces = 0.5;

}  // namespace

std::optional<SegmentNormPlan> PlanSegmentNorm(DataType type, const SegmentedRows& rows,
                                               const device::DeviceInfo& device) {
  if (!kSegmentNormTypes.Contains(type) || rows.rows() == 0 || rows.elems() == 0) return std::nullopt;
  const int64_t pack = RowPack(SizeOf(type)), most = int64_t{1} << 31;
  if (rows.length % pack != 0 || rows.rows() >= most || rows.elems() > kMostRowElems) return std::nullopt;
  const int64_t packs = rows.length / pack, of_segment = CeilDiv<int64_t>(packs, kSegmentPiecePacks);
  if (static_cast<double>(packs) < kLeastOfPieces * static_cast<double>(of_segment * kSegmentPiecePacks)) {
    return std::nullopt;
  }
  SegmentNormPlan plan;
  plan.slots = LongSlots(device, kLongThreads, 1, kOtherSharedBytes);
  const int64_t pieces = rows.segments * of_segment, room = kLongHeld + plan.slots;
  const int64_t processors = device.simulated ? 1 : std::clamp<int64_t>(device.multiprocessors, 1, kMostTeam);
  const auto chunks = [&](int64_t team) { return CeilDiv<int64_t>(pieces, team * (kLongThreads / 32)); };
  const bool has_barriers = device.simulated || device.major >= 8;  // which its warps wait at for moments
  if (has_barriers && rows.rows() > std::max(device.multiprocessors, 1) && 2 * chunks(1) < plan.slots) {
    plan.ahead = true;
    plan.blocks = static_cast<unsigned>(LongBlocks(rows.rows(), std::max(device.multiprocessors, 1)));
    return plan;
  }
  int64_t team = 1;  // the smallest that holds a row and has slots for the next
  while (team < processors && chunks(team) > std::max<int64_t>(room - kSlotsAhead, 1)) ++team;
  // No more teams than have a row in every round, and blocks for as many as these leave.
  const int64_t teams = LongBlocks(rows.rows(), processors / team);
  while (team < processors / teams && chunks(team) > kFewChunks) ++team;
  plan.team = static_cast<unsigned>(team);
  const int64_t all = team > 1 ? teams : LongBlocks(rows.rows(), std::max(device.multiprocessors, 1));
  plan.blocks = static_cast<unsigned>(all * team);
  return plan;
}

}  // namespace cudaep::kernels
