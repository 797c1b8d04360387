// Runs a second of 1, 2, 4, ... threads over one session, through stock ONNX Runtime's C++ interface:
//
//   run_rate LIBONNXRUNTIME MODEL --plugin LIBRARY | --provider cuda    the host's own CUDA provider
//     [--threads 1,2,4,8,16] [--seconds S] [--streams hosts,callers]    S of each measurement, 2 without it
//     [--option KEY=VALUE] [--dim N] [--cpu-allowed]                    N: dimensions that the model leaves open, 8
//     [--bare SUMS,PRODUCTS]  beside it: threads that launch so many small kernels for each "Run" (launch_loop.h)
//     [--tolerance SHARE]     what results may differ from the CPU provider's, 0.01 of the largest number
//     [--check-all] [--profile] [--json FILE]
//
// Threads have inputs and outputs of their own in the device's memory and wait for each Run. Streams: `hosts`, the
// host's own way, and `callers`, one of the application's for each thread. Prints a table; exit code 0: every Run
// succeeded and every result that was looked at was right (a few of each thread, all with --check-all).
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>

#include "launch_loop.h"
#include "rate.h"

namespace cudaep::run_rate {
namespace {

struct Arguments {
  const char* host = nullptr;
  Settings settings;
  std::vector<int> threads = {1, 2, 4, 8, 16};
  std::set<std::string> streams = {"hosts", "callers"};
  double seconds = 2;
  bench::BareRun bare;
  bool check_all = false, profile = false, built_in = false;
  const char* json = nullptr;
};

std::vector<std::string> ListOf(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream stream(text);
  for (std::string word; std::getline(stream, word, ',');) words.push_back(word);
  return words;
}

// False for what this program does not know.
bool Parse(int argc, char** argv, Arguments* out) {
  std::vector<const char*> words;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (!name.starts_with("--")) {
      words.push_back(argv[i]);
    } else if (name == "--cpu-allowed") {
      out->settings.cpu_allowed = true;
    } else if (name == "--check-all") {
      out->check_all = true;
    } else if (name == "--profile") {
      out->profile = true;
    } else if (++i == argc) {
      return false;
    } else if (name == "--plugin") {
      out->settings.plugin = argv[i];
    } else if (name == "--provider") {
      out->built_in = std::string(argv[i]) == "cuda";
    } else if (name == "--threads") {
      out->threads.clear();
      for (const std::string& word : ListOf(argv[i])) out->threads.push_back(std::atoi(word.c_str()));
    } else if (name == "--seconds") {
      out->seconds = std::atof(argv[i]);
    } else if (name == "--streams") {
      const std::vector<std::string> kinds = ListOf(argv[i]);
      out->streams = {kinds.begin(), kinds.end()};
    } else if (name == "--option") {
      out->settings.options.push_back(host_api::SplitEntry(argv[i]));
    } else if (name == "--dim") {
      out->settings.free_dim = std::atoll(argv[i]);
    } else if (name == "--bare") {
      const std::vector<std::string> counts = ListOf(argv[i]);
      if (counts.size() != 2) return false;
      out->bare = {std::atoi(counts[0].c_str()), std::atoi(counts[1].c_str())};
    } else if (name == "--tolerance") {
      out->settings.tolerance = std::atof(argv[i]);
    } else if (name == "--json") {
      out->json = argv[i];
    } else {
      return false;
    }
  }
  for (const int threads : out->threads) {
    if (threads < 1) return false;
  }
  for (const std::string& kind : out->streams) {
    if (kind != "hosts" && kind != "callers") return false;
  }
  if (words.size() != 2 || out->threads.empty() || out->built_in != (out->settings.plugin == nullptr)) return false;
  out->host = words[0];
  out->settings.model = words[1];
  return true;
}

std::string JsonOf(const Rate& rate, double speed_up) {
  std::ostringstream text;
  text << "{\"threads\": " << rate.threads << ", \"runs_per_second\": " << rate.runs_per_second
       << ", \"speed_up\": " << speed_up << ", \"run_us\": " << rate.run_us << ", \"user_us\": " << rate.user_us
       << ", \"system_us\": " << rate.system_us << ", \"others_us\": " << rate.others_us
       << ", \"sleeps\": " << rate.sleeps << ", \"preemptions\": " << rate.preemptions
       << ", \"largest_difference\": " << rate.largest_difference;
  return text.str();
}

// Prints where the threads were; the same as members of a JSON object.
std::string Profile(const Sampler& sampler) {
  std::string libraries, places;
  std::printf("    by library:");
  for (const auto& [library, share] : sampler.Libraries()) {
    std::printf(" %s %.0f%%", library.c_str(), 100 * share);
    libraries += (libraries.empty() ? "" : ", ") + host_api::Quoted(library) + ": " + std::to_string(share);
  }
  std::printf("\n");
  for (const Sampler::Place& place : sampler.Places(10)) {
    std::printf("    %5.1f%% %s, called by %s\n", 100 * place.share, place.where.c_str(), place.caller.c_str());
    places += (places.empty() ? "" : ", ") + ("{\"where\": " + host_api::Quoted(place.where)) +
              ", \"caller\": " + host_api::Quoted(place.caller) + ", \"share\": " + std::to_string(place.share) + "}";
  }
  return ", \"libraries\": {" + libraries + "}, \"places\": [" + places + "]";
}

// One line for each number of threads.
std::string MeasureAll(const Subject& subject, const Arguments& arguments, Streams streams, const char* name,
                       Sampler* sampler) {
  std::string json;
  double first = 0;
  for (const int threads : arguments.threads) {
    const Rate rate = Measure(subject, {threads, streams, arguments.seconds, arguments.check_all}, sampler);
    if (first == 0) first = rate.runs_per_second / threads;
    const double speed_up = rate.runs_per_second / first;
    std::printf("%-8s %7d %10.0f %8.2f %9.1f %9.1f %9.1f %9.1f %8.2f %8.2f\n", name, threads, rate.runs_per_second,
                speed_up, rate.run_us, rate.user_us, rate.system_us, rate.others_us, rate.sleeps, rate.preemptions);
    json += (json.empty() ? "" : ", ") + JsonOf(rate, speed_up);
    if (sampler != nullptr) json += Profile(*sampler);
    json += "}";
    std::fflush(stdout);
  }
  return "[" + json + "]";
}

std::string MeasureBare(const Arguments& arguments) {
  std::string json;
  double first = 0;
  for (const int threads : arguments.threads) {
    const auto rate = bench::BareRunsPerSecond(threads, arguments.bare, arguments.seconds);
    if (!rate.ok()) host_api::Fail(rate.status().ToString());
    if (first == 0) first = rate.value() / threads;
    const double speed_up = rate.value() / first;
    std::printf("%-8s %7d %10.0f %8.2f\n", "bare", threads, rate.value(), speed_up);
    json += (json.empty() ? "" : ", ") + ("{\"threads\": " + std::to_string(threads)) +
            ", \"runs_per_second\": " + std::to_string(rate.value()) + ", \"speed_up\": " + std::to_string(speed_up) +
            "}";
  }
  return "[" + json + "]";
}

void Main(const Arguments& arguments) {
  const std::string version = host_api::LoadHost(arguments.host);
  const Subject subject(arguments.settings);
  std::optional<Sampler> sampler;
  Sampler* const profiler = arguments.profile ? &sampler.emplace() : nullptr;
  const std::string provider = arguments.settings.plugin == nullptr ? "built-in" : "plug-in";
  std::printf("%s of host %s, %s\n%-8s %7s %10s %8s %9s %9s %9s %9s %8s %8s\n", provider.c_str(), version.c_str(),
              arguments.settings.model, "streams", "threads", "Runs/s", "speed-up", "us a Run", "user us", "system us",
              "other us", "sleeps", "preempt.");
  std::string json = "{\"host\": " + host_api::Quoted(version) + ", \"provider\": " + host_api::Quoted(provider) +
                     ", \"model\": " + host_api::Quoted(arguments.settings.model) +
                     ", \"results_checked\": " + (subject.CanCopy() ? "true" : "false");
  if (arguments.bare.sums + arguments.bare.products > 0) {
    json += ", \"bare\": " + MeasureBare(arguments);
  }
  if (arguments.streams.contains("hosts")) {
    json += ", \"hosts\": " + MeasureAll(subject, arguments, Streams::kHosts, "hosts", profiler);
  }
  if (arguments.streams.contains("callers") && subject.device() != nullptr) {
    json += ", \"callers\": " + MeasureAll(subject, arguments, Streams::kCallers, "callers", profiler);
  }
  if (arguments.json != nullptr) {
    std::ofstream file(arguments.json);
    file << json << "}\n";
    if (!file.flush()) host_api::Fail(std::string(arguments.json) + " cannot be written");
  }
}

}  // namespace
}  // namespace cudaep::run_rate

int main(int argc, char** argv) {
  cudaep::run_rate::Arguments arguments;
  if (!cudaep::run_rate::Parse(argc, argv, &arguments)) {
    return std::fprintf(stderr, "usage: see the head of run_rate.cc\n"), 2;
  }
  try {
    cudaep::run_rate::Main(arguments);
  } catch (const std::exception& exception) {
    return std::fprintf(stderr, "run_rate: %s\n", exception.what()), 1;
  }
  return 0;
}
