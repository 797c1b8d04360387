#include "runtime/plan_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/log.h"
#include "core/strings.h"

namespace cudaep {
namespace {

constexpr std::string_view kHeaderOfAnyFormat = "ort-cuda-ep plans ";
constexpr std::string_view kHeader = "ort-cuda-ep plans 2\n";
constexpr std::string_view kNewSuffix = ".new";

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() {
    if (fd_ >= 0) close(fd_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

uint64_t Checksum(std::string_view key, std::string_view text) {
  uint64_t hash = 0xCBF29CE484222325u;  // FNV-1a
  for (std::string_view part : {key, text}) {
    for (char c : part) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
    hash = (hash ^ 0xFF) * 0x100000001B3u;
  }
  return hash;
}

Status SystemError(std::string_view what, const std::string& path) {
  return FailedPrecondition("plan file: cannot ", what, ' ', path, ": ", std::strerror(errno));
}

// Takes "<number><mark>" off the front of `text`.
bool TakeNumber(std::string_view* text, char mark, uint64_t* value) {
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), *value);
  const auto length = static_cast<size_t>(end - text->data());
  if (error != std::errc() || length == text->size() || *end != mark) return false;
  text->remove_prefix(length + 1);
  return true;
}

bool TakeRecord(std::string_view* text, std::map<std::string, std::string>* records) {
  uint64_t key_bytes = 0, text_bytes = 0, checksum = 0;
  if (!TakeNumber(text, ' ', &key_bytes) || !TakeNumber(text, ' ', &text_bytes) || !TakeNumber(text, '\n', &checksum) ||
      key_bytes > text->size() || text_bytes >= text->size() - key_bytes || (*text)[key_bytes + text_bytes] != '\n') {
    return false;
  }
  const std::string_view key = text->substr(0, key_bytes), value = text->substr(key_bytes, text_bytes);
  if (Checksum(key, value) != checksum) return false;
  (*records)[std::string(key)] = value;
  text->remove_prefix(key_bytes + text_bytes + 1);
  return true;
}

// What `path` leads to. Links are followed, so that the file they name is replaced and not they themselves.
std::string Resolved(const std::string& path) {
  std::error_code error;
  const std::filesystem::path resolved = std::filesystem::weakly_canonical(path, error);
  return error ? path : resolved.string();
}

// Folders, pipes and devices are neither read nor replaced.
bool MayBePlans(const std::string& path) {
  std::error_code error;
  const auto type = std::filesystem::status(path, error).type();
  return type == std::filesystem::file_type::regular || type == std::filesystem::file_type::not_found;
}

// What killed processes have left beside `path`. The caller has the lock, so nobody else is writing.
void RemoveLeftovers(const std::filesystem::path& path) {
  const std::string start = path.filename().string() + '.';
  std::error_code error, ignored;
  std::filesystem::directory_iterator entry(path.parent_path(), error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(start) || !name.ends_with(kNewSuffix)) continue;
    const size_t end = name.size() - std::string_view(kNewSuffix).size();
    // As Write names them: process and count.
    const bool ours = end > start.size() && name.find_first_not_of("0123456789.", start.size()) >= end;
    if (ours) std::filesystem::remove(entry->path(), ignored);
  }
}

bool WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

}  // namespace

PlanFile::PlanFile(const std::string& path) : path_(Resolved(path)) {}

PlanFile::Records PlanFile::Read() {
  Records records;
  if (!MayBePlans(path_)) return records;  // Save says so
  std::error_code error;
  const bool readable = std::filesystem::file_size(path_, error) <= kMostBytes;
  if (error) return records;
  std::ifstream stream(path_, std::ios::binary);
  if (!stream) return records;
  std::string bytes;
  if (readable) bytes.assign(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
  std::string_view rest = bytes;
  bool whole = rest.starts_with(kHeader);
  if (whole) rest.remove_prefix(kHeader.size());
  while (whole && !rest.empty()) whole = TakeRecord(&rest, &records);
  if (whole) return records;
  const bool of_another_format = bytes.starts_with(kHeaderOfAnyFormat) && !bytes.starts_with(kHeader);
  if (!damage_logged_) {
    Log(LogLevel::kWarning, "plan file ", path_,
        of_another_format ? " is of another version of the library" : " is damaged",
        "; it is not used and written anew");
  }
  damage_logged_ = true;
  return {};
}

void PlanFile::ReadOnce() {
  if (was_read_) return;
  records_ = Read();
  was_read_ = true;
}

std::string PlanFile::Find(const std::string& key) {
  std::lock_guard lock(mutex_);
  ReadOnce();
  const auto found = records_.find(key);
  return found == records_.end() ? std::string() : found->second;
}

void PlanFile::Put(const std::string& key, std::string text) {
  if (text.size() > kMostTextBytes) return;
  std::lock_guard lock(mutex_);
  unwritten_[key] = text;
  records_[key] = std::move(text);
}

Status PlanFile::Save() {
  std::lock_guard lock(mutex_);
  if (unwritten_.empty()) return Status::Ok();
  was_saved_ = true;
  if (!MayBePlans(path_)) return FailedPrecondition("plan file: ", path_, " is no regular file; no plans are kept");
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), ignored);
  const std::string lock_path = path_ + ".lock";
  const FileDescriptor lock_file(open(lock_path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644));
  if (lock_file.get() < 0) return SystemError("open", lock_path);
  if (flock(lock_file.get(), LOCK_EX) != 0) return SystemError("lock", lock_path);
  RemoveLeftovers(path_);
  Records merged = Read();
  for (const auto& [key, text] : unwritten_) merged[key] = text;
  size_t bytes = 0;
  for (const auto& [key, text] : merged) bytes += key.size() + text.size() + 64;
  if (bytes > kMostBytes) merged = unwritten_;
  CUDAEP_RETURN_IF_ERROR(Write(merged));
  unwritten_.clear();
  return Status::Ok();
}

Status PlanFile::Write(const Records& records) const {
  static std::atomic<unsigned> count{0};
  const std::string fresh = StrCat(path_, '.', static_cast<int64_t>(getpid()), '.', count.fetch_add(1), kNewSuffix);
  std::string bytes(kHeader);
  for (const auto& [key, text] : records) {
    bytes += StrCat(key.size(), ' ', text.size(), ' ', Checksum(key, text), '\n', key, text, '\n');
  }
  {
    const FileDescriptor file(open(fresh.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644));
    if (file.get() < 0) return SystemError("create", fresh);
    if (!WriteAll(file.get(), bytes) || fdatasync(file.get()) != 0) {
      const Status failure = SystemError("write", fresh);
      unlink(fresh.c_str());
      return failure;
    }
  }
  if (rename(fresh.c_str(), path_.c_str()) == 0) return Status::Ok();
  const Status failure = SystemError("replace", path_);
  unlink(fresh.c_str());
  return failure;
}

void PlanFile::SaveOrLog() {
  const Status status = Save();
  if (status.ok()) return;
  std::lock_guard lock(mutex_);
  if (!failure_logged_) Log(LogLevel::kWarning, status.message());
  failure_logged_ = true;
}

bool PlanFile::was_saved() {
  std::lock_guard lock(mutex_);
  return was_saved_;
}

std::string DefaultPlanFile() {
  const auto below = [](const char* variable, const char* rest) {
    const char* const folder = std::getenv(variable);
    return folder == nullptr || *folder == '\0' ? std::string() : StrCat(folder, rest);
  };
  for (const auto& [variable, rest] :
       {std::pair{"ORT_CUDA_EP_CACHE", "/plans"}, std::pair{"XDG_CACHE_HOME", "/ort-cuda-ep/plans"},
        std::pair{"HOME", "/.cache/ort-cuda-ep/plans"}}) {
    if (std::string path = below(variable, rest); !path.empty()) return path;
  }
  return {};
}

}  // namespace cudaep
