#include "memory/out_of_memory.h"

#include "core/format_bytes.h"
#include "core/strings.h"

namespace cudaep::memory {
namespace {

std::string DeviceMemoryText(const MemorySource& source) {
  if (source.kind != MemoryKind::kDevice) return "";
  device::DeviceGuard guard(source.ordinal);
  size_t free_bytes = 0, total_bytes = 0;
  if (!guard.status().ok() || !device::MemGetInfo(&free_bytes, &total_bytes).ok()) return "";
  return StrCat("; device: ", FormatBytes(free_bytes), " of ", FormatBytes(total_bytes), " free");
}

std::string UsersText(const std::vector<MemoryUser>& users) {
  std::string text;
  for (const MemoryUser& user : users) {
    text += text.empty() ? "; largest users: " : ", ";
    text += StrCat(user.label != nullptr ? user.label : "outside any node (pattern block, inputs, outputs)", " ",
                   FormatBytes(user.bytes), " in ", user.chunks, user.chunks == 1 ? " chunk" : " chunks");
  }
  return text;
}

}  // namespace

Status OutOfMemoryError(size_t bytes, const MemorySource& source, std::string_view cause, const AllocatorStats& stats,
                        const std::vector<MemoryUser>& users) {
  const std::string place = source.kind == MemoryKind::kDevice ? StrCat("CUDA device ", source.ordinal)
                                                               : std::string("page-locked host memory");
  std::string text = StrCat(kOutOfMemoryCode, " ", bytes, " bytes on ", place, ": ", cause, "; ", stats.bytes_in_use,
                            " in use, ", stats.bytes_reserved, " reserved");
  if (stats.limit_bytes != 0) text += StrCat(" of ", stats.limit_bytes);
  text += DeviceMemoryText(source);
  if (source.budget != nullptr) text += StrCat("; budget: ", source.budget->Describe());
  return Status(StatusCode::kOutOfMemory, text + UsersText(users));
}

}  // namespace cudaep::memory
