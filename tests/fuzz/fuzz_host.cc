// Drives stock ONNX Runtime with drawn models and options, through its C ABI, on the plug-in.
//
//   fuzz_host LIBONNXRUNTIME PLUGIN models|options --seeds FILE --first NUMBER [--cases N] [--seconds S] [--state FILE]
//   fuzz_host LIBONNXRUNTIME PLUGIN models|options --seeds FILE --write NUMBER CASE   (keeps a case as a file)
//   fuzz_host LIBONNXRUNTIME PLUGIN replay CASE...
//   --cpu: on the host's own CPU provider, to see whether a crash is the host's
//   --limit S: a case may take this long, 30 s without it
//
// Case NUMBER is drawn from the number alone, so a run that dies is repeated with --first NUMBER --cases 1. The state
// file tells what a run came to, however it ended: before each case its number and the counts of those before it are
// written there (struct State). Exit code 0: every failure was a status; 3: a finding, printed; a signal: a crash,
// SIGALRM a hang.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>

#include "cases.h"

namespace cudaep::fuzz {
namespace {

constexpr int kFinding = 3;

std::string ReadFile(const char* path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(std::string("cannot read ") + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The seeds: each model after its length as 4 bytes.
Pool ReadSeeds(const std::string& path) {
  const std::string bytes = ReadFile(path.c_str());
  std::vector<Model> models;
  for (size_t at = 0; at + 4 <= bytes.size();) {
    uint32_t length = 0;
    std::memcpy(&length, bytes.data() + at, sizeof(length));
    if (auto model = Parse(std::string_view(bytes).substr(at + 4, length))) models.push_back(*std::move(model));
    at += 4 + length;
  }
  if (models.empty()) throw std::runtime_error(path + " holds no seeds");
  return Pool(std::move(models));
}

struct Counts {
  uint64_t cases = 0, created = 0, ran = 0, skipped = 0, refused = 0, failed_runs = 0;

  void Add(const Outcome& outcome) {
    ++cases;
    created += outcome.created;
    ran += outcome.ran;
    skipped += outcome.skipped;
    refused += !outcome.created;
    failed_runs += outcome.created && !outcome.ran && !outcome.skipped;
  }
};

struct State {
  uint64_t next = 0;  // the case at work; after the last, the one to go on from
  Counts counts;      // of the cases before it
};

class Fuzzer {
 public:
  explicit Fuzzer(std::map<std::string, std::string> options, std::vector<std::string> words)
      : options_(std::move(options)),
        words_(std::move(words)),
        host_(words_[0].c_str(), words_[1].c_str(), !options_.contains("--cpu")) {}

  int Main() {
    if (words_[2] == "replay") {
      for (size_t i = 3; i < words_.size(); ++i) {
        if (!Try(Read(ReadFile(words_[i].c_str())), words_[i])) return kFinding;
      }
      return 0;
    }
    return Loop(words_[2] == "models" ? Kind::kModels : Kind::kOptions);
  }

 private:
  uint64_t Number(const std::string& name, uint64_t otherwise) {
    const auto found = options_.find(name);
    return found == options_.end() ? otherwise : std::strtoull(found->second.c_str(), nullptr, 10);
  }

  int Loop(Kind kind) {
    const Pool pool = kind == Kind::kModels ? ReadSeeds(options_["--seeds"]) : Pool({});
    if (options_.contains("--write")) {
      std::ofstream(words_.at(3), std::ios::binary) << Write(DrawCase(kind, Number("--write", 0), pool));
      return 0;
    }
    const int file = options_.contains("--state") ? open(options_["--state"].c_str(), O_WRONLY) : -1;
    const auto write_state = [&](uint64_t next) {
      const State state{next, counts_};
      return file < 0 || pwrite(file, &state, sizeof(state), 0) == sizeof(state);
    };
    const auto start = std::chrono::steady_clock::now();
    const std::chrono::seconds budget(Number("--seconds", 1u << 30));
    const uint64_t first = Number("--first", 1), cases = Number("--cases", UINT64_MAX);
    uint64_t number = first;
    for (; number - first < cases && std::chrono::steady_clock::now() - start < budget; ++number) {
      if (!write_state(number)) return 2;
      if (!Try(DrawCase(kind, number, pool), "case " + std::to_string(number))) return kFinding;
    }
    return write_state(number) ? 0 : 2;
  }

  bool Try(const Case& drawn, const std::string& name) {
    alarm(static_cast<unsigned>(Number("--limit", 30)));
    Random random(drawn.seed);
    Outcome outcome;
    std::string problem;
    if (drawn.restart) {
      try {
        host_.Restart(drawn.settings);
      } catch (const Ort::Exception& exception) {
        outcome.error = exception.what();  // entries refused at registration
      }
    }
    if (outcome.error.empty()) {
      outcome = host_.TryModel(drawn.model, drawn.settings, drawn.optimize, drawn.cpu_allowed, random);
      problem = host_.Problem(outcome);
    }
    if (drawn.restart) host_.Restart({});
    counts_.Add(outcome);
    if (options_.contains("--verbose")) std::printf("%s: %s\n", name.c_str(), outcome.error.c_str());
    if (problem.empty()) return true;
    std::fprintf(stderr, "finding in %s: %s\n", name.c_str(), problem.c_str());
    return false;
  }

  std::map<std::string, std::string> options_;
  std::vector<std::string> words_;
  Host host_;
  Counts counts_;
};

}  // namespace
}  // namespace cudaep::fuzz

int main(int argc, char** argv) {
  std::map<std::string, std::string> options;
  std::vector<std::string> words;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool flag = word == "--cpu" || word == "--verbose";
    if (!word.starts_with("--")) {
      words.push_back(word);
    } else if (flag || i + 1 < argc) {
      options[word] = flag ? "" : argv[++i];
    }
  }
  if (words.size() < 3) return std::fprintf(stderr, "usage: see the head of fuzz_host.cc\n"), 2;
#ifndef __SANITIZE_ADDRESS__
  // Bounds what the host's CPU operators ask for; the simulated device, which bounds ours, has up to 3 GiB of
  // addresses.
  const rlimit limit{rlim_t{8} << 30, rlim_t{8} << 30};
  setrlimit(RLIMIT_DATA, &limit);
#endif
  try {
    return cudaep::fuzz::Fuzzer(std::move(options), std::move(words)).Main();
  } catch (const std::exception& exception) {
    std::fprintf(stderr, "fuzz_host: %s\n", exception.what());
    return 2;
  }
}
