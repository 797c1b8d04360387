#include "runtime/rendezvous_note.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <random>
#include <sstream>

#include "core/strings.h"

namespace cudaep {
namespace {

constexpr std::string_view kHeader = "ort-cuda-ep rendezvous 1";
constexpr mode_t kOwnerOnly = 0600;  // the id lets whoever has it join

// More than any note of ours: whoever waits must not be kept by what somebody else has put there.
constexpr size_t kMostBytes = 1 << 20;

Status FileError(std::string_view what, const std::string& path) {
  return Status(StatusCode::kDeviceError, StrCat("cannot ", what, " '", path, "': ", std::strerror(errno)));
}

// A pipe would be waited for, a device may have no end: empty like where there is nothing.
std::string ReadFile(const std::string& path) {
  std::string text;
  const int descriptor = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) return text;
  struct stat status {};
  if (fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode)) {
    char buffer[4096];
    ssize_t count = 0;
    while (text.size() < kMostBytes && (count = read(descriptor, buffer, sizeof(buffer))) > 0) {
      text.append(buffer, static_cast<size_t>(count));
    }
  }
  close(descriptor);
  return text;
}

}  // namespace

RendezvousNote ReadNote(const std::string& path) {
  RendezvousNote note;
  std::istringstream lines(ReadFile(path));
  std::string line;
  if (!std::getline(lines, line) || line != kHeader) return note;
  while (std::getline(lines, line)) {
    const size_t space = line.find(' ');
    if (space == std::string::npos) continue;
    const std::string key = line.substr(0, space), value = line.substr(space + 1);
    if (key == "nonce") note.nonce = value;
    if (key == "group") note.group = value;
    if (key == "id") note.id = value;
    if (key == "failure") note.failure = value;
    if (key == "answer") {
      const size_t end = value.find(' ');
      if (end != std::string::npos) note.answers[std::atoi(value.c_str())] = value.substr(end + 1);
    }
  }
  return note;
}

Status WriteNote(const std::string& path, const RendezvousNote& note) {
  std::string text = StrCat(kHeader, "\nnonce ", note.nonce, "\ngroup ", note.group, "\n");
  for (const auto& [rank, nonce] : note.answers) text += StrCat("answer ", rank, ' ', nonce, '\n');
  if (!note.id.empty()) text += StrCat("id ", note.id, '\n');
  if (!note.failure.empty()) text += StrCat("failure ", note.failure, '\n');
  const std::string fresh = StrCat(path, '.', note.nonce, ".new");
  // Never through a link that somebody else has put there.
  const int descriptor = open(fresh.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, kOwnerOnly);
  if (descriptor < 0) return FileError("create", fresh);
  const bool written = write(descriptor, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  close(descriptor);
  if (written && rename(fresh.c_str(), path.c_str()) == 0) return Status::Ok();
  Status failure = FileError("write", path);
  unlink(fresh.c_str());
  return failure;
}

std::string NewNonce() {
  std::random_device random;
  std::string nonce(16, '0');
  for (char& digit : nonce) digit = "0123456789abcdef"[random() % 16];
  return nonce;
}

}  // namespace cudaep
