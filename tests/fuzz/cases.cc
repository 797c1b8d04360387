#include "cases.h"

#include <stdexcept>

#include "host_bugs.h"
#include "runtime/options_table.h"

namespace cudaep::fuzz {
namespace {

constexpr const char* kMagic = "ort-cuda-ep fuzz case 1\n";

// out = x + x over floats of any length, which every session of valid settings must run.
std::string TinyModel() {
  const std::vector<Dim> shape = {{std::nullopt, "n"}};
  Model model;
  model.opsets = {{"", 17}};
  model.nodes = {{.inputs = {"x", "x"}, .outputs = {"y"}, .name = "add", .op = "Add"}};
  model.inputs = {{"x", 1, shape}};
  model.outputs = {{"y", 1, shape}};
  return Serialize(model);
}

bool IsPointer(const OptionRow& row) { return std::string(row.accepts).find("address") != std::string::npos; }

// A value of the words that the row's own documentation accepts, or a default, or a number of any size, or noise.
std::string DrawValue(const OptionRow& row, Random& random) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : std::string(row.accepts) + " ") {
    if (c != ' ' && c != ',') {
      word += c;
    } else if (!word.empty()) {
      words.push_back(std::exchange(word, ""));
    }
  }
  // An address that means nothing would be the caller's mistake, and deadly: only those that are refused or null.
  if (IsPointer(row)) return random.Pick<std::string>({"0", "0x0", "", "-1", "0x", "abc", "1 ", "0x1g", "99e9"});
  switch (random.Below(6)) {
    case 0:
      return row.default_value;
    case 1:
    case 2:
      return random.Pick(words);
    case 3:
      return std::to_string(random.Integer());
    case 4:
      return random.Pick<std::string>({"0", "1", "true", "False", "-5", "2097152", "1048576", "67108864"});
    default:
      return random.Text();
  }
}

std::string DrawKey(const OptionRow& row, Random& random) {
  std::string key = row.name;
  if (!random.OneIn(8)) return key;
  const size_t at = random.Below(key.size());
  switch (random.Below(4)) {
    case 0:
      key[at] = static_cast<char>(key[at] ^ 0x20);
      break;
    case 1:
      key.erase(at, 1);
      break;
    case 2:
      key += random.Text();
      break;
    default:
      key = random.Text();
  }
  return key;
}

std::vector<Setting> DrawSettings(bool* restart, Random& random) {
  const auto table = OptionTable();
  std::vector<Setting> settings;
  for (size_t i = 0, count = 1 + random.Below(4); i < count; ++i) {
    const OptionRow& row = table[random.Below(table.size())];
    // Runs here have no binding, which a session with graphs refuses.
    if (std::string_view(row.name) == "enable_cuda_graph") continue;
    const std::string key = DrawKey(row, random), value = DrawValue(row, random);
    switch (random.Below(8)) {
      case 0:
      case 1:
      case 2:
        settings.push_back({Entry::kProviderOption, key, value});
        break;
      case 3:
      case 4:
        settings.push_back({Entry::kSession, "ep.cuda." + key, value});
        break;
      case 5:
      case 6:
        settings.push_back({Entry::kSession, "ep.cudaexecutionprovider." + key, value});
        break;
      default:
        *restart = true;
        settings.push_back({Entry::kEnvironment, "ep_factory.CUDAExecutionProvider." + key, value});
    }
  }
  return settings;
}

}  // namespace

Case DrawCase(Kind kind, uint64_t number, const Pool& pool) {
  Random random(number);
  Case drawn;
  drawn.seed = random.Next();
  if (kind == Kind::kOptions) {
    drawn.model = TinyModel();
    drawn.settings = DrawSettings(&drawn.restart, random);
    return drawn;
  }
  drawn.optimize = random.OneIn(3);
  drawn.cpu_allowed = !random.OneIn(6);
  // Settings that change which code runs.
  static const std::vector<std::pair<const char*, const char*>> kSwitches = {{"use_tf32", "0"},
                                                                             {"cudnn_conv1d_pad_to_nc1d", "1"},
                                                                             {"enable_cudnn", "0"},
                                                                             {"arena.enable", "0"},
                                                                             {"use_ep_level_unified_stream", "1"},
                                                                             {"cudnn_conv_algo_search", "EXHAUSTIVE"},
                                                                             {"gpu_mem_limit", "8388608"},
                                                                             {"cudnn_conv_use_max_workspace", "0"}};
  while (random.OneIn(5)) {
    const auto& [key, value] = random.Pick(kSwitches);
    drawn.settings.push_back({Entry::kProviderOption, key, value});
  }
  if (random.OneIn(3)) drawn.settings.push_back({Entry::kProviderOption, "compiled_regions", "0"});
  Model model = DrawModel(pool, random);
  while (KnownHostBug(model) != nullptr) model = DrawModel(pool, random);
  drawn.model = Serialize(model);
  if (random.OneIn(12)) ChangeBytes(&drawn.model, random);
  return drawn;
}

std::string Write(const Case& drawn) {
  std::string bytes = kMagic;
  bytes += std::string{drawn.optimize ? '1' : '0', drawn.cpu_allowed ? '1' : '0', drawn.restart ? '1' : '0', ' '};
  bytes += std::to_string(drawn.seed) + "\n";
  for (const Setting& setting : drawn.settings) {
    bytes += static_cast<char>(setting.where) + setting.key + '\0' + setting.value + '\0';
  }
  return bytes + "M" + drawn.model;
}

Case Read(const std::string& bytes) {
  const std::string magic = kMagic;
  size_t at = magic.size() + 4;
  if (!bytes.starts_with(magic) || bytes.size() < at) throw std::runtime_error("the file is no fuzz case");
  const auto take = [&](char end) {
    const size_t stop = bytes.find(end, at);
    if (stop == std::string::npos) throw std::runtime_error("the fuzz case ends too early");
    std::string text = bytes.substr(at, stop - at);
    at = stop + 1;
    return text;
  };
  Case read;
  read.optimize = bytes[magic.size()] == '1';
  read.cpu_allowed = bytes[magic.size() + 1] == '1';
  read.restart = bytes[magic.size() + 2] == '1';
  read.seed = std::strtoull(take('\n').c_str(), nullptr, 10);
  while (at < bytes.size() && bytes[at] != 'M') {
    const auto where = static_cast<Entry>(bytes[at++]);
    std::string key = take('\0');
    read.settings.push_back({where, std::move(key), take('\0')});
  }
  if (at < bytes.size()) read.model = bytes.substr(at + 1);
  return read;
}

}  // namespace cudaep::fuzz
