#include "runtime/collective_options.h"

#include "runtime/option_parsing.h"

namespace cudaep {
namespace {

using option_parsing::ParseInt;

bool SetSize(Settings& settings, std::string_view value) {
  return ParseInt(value, &settings.group.size) && settings.group.size >= 1 && settings.group.size <= kMostRanks;
}

bool SetRank(Settings& settings, std::string_view value) {
  return ParseInt(value, &settings.group.rank) && settings.group.rank >= 0;
}

bool SetFile(Settings& settings, std::string_view value) {
  settings.group.file = value;
  return true;
}

bool SetTimeout(Settings& settings, std::string_view value) {
  return ParseInt(value, &settings.group.timeout_s) && settings.group.timeout_s >= 1 &&
         settings.group.timeout_s <= kMostTimeoutSeconds;
}

constexpr OptionRow kTable[] = {
    {"collective_size", "a number, 1 to 1024", "",
     "how many ranks run the model together (docs/guides/several-gpus.md)", SetSize, nullptr},
    {"collective_rank", "a number, 0 to collective_size - 1", "0", "which of them this session is", SetRank, nullptr},
    {"collective_file", "a file's path", "",
     "where the ranks of one group meet: the same for all of them, in a folder that each may write to", SetFile,
     nullptr},
    {"collective_timeout_s", "a number, 1 to 86400", "300",
     "seconds that a rank waits for the others, when its session is made and in each collective operator", SetTimeout,
     nullptr},
};

}  // namespace

std::span<const OptionRow> CollectiveOptions() { return kTable; }

Status CheckCollectiveOptions(const Settings& settings) {
  const GroupSettings& group = settings.group;
  if (group.size == 0) {
    if (group.rank == 0 && group.file.empty()) return Status::Ok();
    return InvalidArgument("provider option ", group.rank != 0 ? "collective_rank" : "collective_file",
                           " needs collective_size");
  }
  if (group.rank >= group.size) {
    return InvalidArgument("provider option collective_rank='", group.rank, "' is no rank of collective_size='",
                           group.size, "': they count from 0");
  }
  if (group.size > 1 && group.file.empty()) {
    return InvalidArgument("provider option collective_size='", group.size,
                           "' needs collective_file, where the ranks meet");
  }
  return Status::Ok();
}

}  // namespace cudaep
