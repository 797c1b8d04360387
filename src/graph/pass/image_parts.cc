#include "graph/pass/image_parts.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/strings.h"
#include "graph/pass/part_match.h"
#include "ops/conv/conv_parts.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

constexpr size_t kImage = 0, kBias = 2, kResidual = 3, kExtended = 4;

// A convolution that may read and write parts; what else that takes its operator says (IsSupported).
bool TakesParts(const ir::Graph& graph, const ir::Node& node, const Settings& settings) {
  const bool is_conv = node.Is("Conv", ops::kFusedDomain) && !node.on_host;
  if (!is_conv || IntAttribute(node, "channels_last", 0) == 0 || IntAttribute(node, "group", 1) != 1) return false;
  const auto name = node.attributes.find("activation");
  if (name == node.attributes.end()) return false;
  const auto activation = ActivationFromName(std::get<std::string>(name->second));
  const bool bias_is_there =
      node.inputs.size() <= kBias || node.inputs[kBias] < 0 || graph.value(node.inputs[kBias]).is_constant();
  return bias_is_there && activation && ops::CompilesFor(*activation, ops::ConvOptions(settings));
}

// Where what reads an input of a convolution begins to read it.
const char* FirstOf(size_t input) {
  return input == kImage ? "x_first" : input == kResidual ? "residual_first" : nullptr;
}

// One image of a Concat's, or pieces that are all of one.
struct Part {
  int value = -1;                     // that a convolution makes
  int maker = -1;                     // -1: no convolution that may write it there
  int64_t first = 0;                  // channel of the result
  std::vector<int> values = {};       // what is joined
  std::vector<int64_t> offsets = {};  // of these, in the part
  std::vector<int> cutters = {};      // what makes the pieces: a Split, Slices
};

class Placer {
 public:
  Placer(ir::Graph& graph, const PassContext& context)
      : graph_(graph), context_(context), match_(graph), gone_(graph) {}

  void Place(int index) {
    const ir::Node& concat = node(index);
    if (concat.on_host || !concat.Is("Concat") || concat.outputs.size() != 1) return;
    const ir::Value& result = graph_.value(concat.outputs[0]);
    if (!kFloat16Types.Contains(result.type) || !result.dims || result.dims->size() < 3 || result.output >= 0) return;
    const auto last = static_cast<int64_t>(result.dims->size()) - 1;
    const int64_t axis = IntAttribute(concat, "axis", 0);
    if (axis != last && axis != -1) return;
    std::string why;
    const std::vector<Part> parts = PartsOf(index, why);
    if (parts.empty()) return;
    if (std::ranges::none_of(parts, [](const Part& part) { return part.maker >= 0; })) {
      if (!why.empty()) context_.notes.push_back({Fusion::kImageParts, concat.sources, std::move(why)});
      return;
    }
    Write(index, parts);
  }

  void Finish() { gone_.Apply(graph_); }

 private:
  const ir::Node& node(int index) const { return graph_.nodes[static_cast<size_t>(index)]; }
  // -1 where it is not stated.
  int64_t ChannelsOf(int value) const {
    const auto& dims = graph_.value(value).dims;
    return dims && !dims->empty() && dims->back().known() ? dims->back().size : -1;
  }

  // Whether all that reads the value is the Concat, once, and convolutions that may read a part.
  bool IsReadThere(int value, int concat, std::string& why) const {
    int joins = 0;
    for (const auto& [reader, input] : match_.uses().readers(value)) {
      const char* const first = FirstOf(static_cast<size_t>(input));
      if (reader == concat) {
        ++joins;
      } else if (!TakesParts(graph_, node(reader), context_.settings) || first == nullptr ||
                 IntAttribute(node(reader), first, -1) >= 0) {
        why = StrCat("a part is read by ", node(reader).sources.empty() ? "others" : node(reader).sources[0]);
        return false;
      }
    }
    return joins == 1 && graph_.value(value).output < 0;
  }

  // The convolution that makes the value and may write it elsewhere; -1: none.
  int WriterOf(int value) const {
    const int maker = match_.MakerIndex(value);
    const bool writes = maker >= 0 && TakesParts(graph_, node(maker), context_.settings) &&
                        IntAttribute(node(maker), "y_first", -1) < 0;
    return writes && graph_.value(value).output < 0 ? maker : -1;
  }

  // What is joined, in its order; nothing where a size is not stated, or channels are no whole packs.
  std::vector<Part> PartsOf(int concat, std::string& why) const {
    std::vector<Part> parts;
    const std::vector<int>& inputs = node(concat).inputs;
    int64_t first = 0;
    for (size_t i = 0; i < inputs.size();) {
      Part part = PiecesAt(concat, i, why);
      if (part.values.empty()) {
        part = {.value = inputs[i], .maker = WriterOf(inputs[i]), .values = {inputs[i]}, .offsets = {0}};
        if (part.maker >= 0 && !IsReadThere(inputs[i], concat, why)) part.maker = -1;
      }
      part.first = first;
      for (const int value : part.values) {
        const int64_t channels = ChannelsOf(value);
        if (channels <= 0 || channels % ops::kWholeChannels != 0) return {};
        first += channels;
      }
      i += part.values.size();
      parts.push_back(std::move(part));
    }
    return parts;
  }

  // Pieces of one image, all of it in order, that begin at an input of the Concat; without values: there are none.
  Part PiecesAt(int concat, size_t input, std::string& why) const {
    const std::vector<int>& inputs = node(concat).inputs;
    Part part;
    int64_t end = 0;
    for (size_t i = input; i < inputs.size(); ++i) {
      const auto piece = MatchRowPart(graph_, match_, inputs[i]);
      if (!piece || piece->begin != end || (part.value >= 0 && piece->whole != part.value)) return {};
      if (!IsReadThere(inputs[i], concat, why)) return {};
      part.value = piece->whole;
      part.values.push_back(inputs[i]);
      part.offsets.push_back(end);
      const int cutter = match_.MakerIndex(inputs[i]);
      if (part.cutters.empty() || part.cutters.back() != cutter) part.cutters.push_back(cutter);
      end = piece->end;
      if (end == piece->size) break;
    }
    part.maker = part.value < 0 ? -1 : WriterOf(part.value);
    const bool is_whole = part.maker >= 0 && end == ChannelsOf(part.value);
    const auto cuts = [&](const auto& use) { return std::ranges::find(part.cutters, use.node) != part.cutters.end(); };
    const auto is_joined = [&](int value) { return std::ranges::find(part.values, value) != part.values.end(); };
    const auto gives_all = [&](int cutter) { return std::ranges::all_of(node(cutter).outputs, is_joined); };
    const bool is_alone = is_whole && std::ranges::all_of(match_.uses().readers(part.value), cuts) &&
                          std::ranges::all_of(part.cutters, gives_all);
    return is_alone ? part : Part();
  }

  void Write(int index, const std::vector<Part>& parts) {
    const ir::Node& concat = node(index);
    const int result = concat.outputs[0];
    const int64_t all = ChannelsOf(result);
    if (all <= 0) return;
    std::vector<const Part*> written;
    ir::Node rest{.name = concat.name,
                  .domain = ops::kFusedDomain,
                  .op_type = "PlaceParts",
                  .inputs = {-1},
                  .outputs = {result},
                  .sources = concat.sources};
    std::vector<int64_t> firsts;
    for (const Part& part : parts) {
      if (part.maker >= 0) {
        written.push_back(&part);
      } else {
        rest.inputs.push_back(part.value);
        firsts.push_back(part.first);
      }
    }
    rest.attributes["firsts"] = firsts;
    std::ranges::sort(written, {}, [](const Part* part) { return part->maker; });

    std::map<int, ir::Node> changed;
    const auto change = [&](int n) -> ir::Node& { return changed.try_emplace(n, node(n)).first->second; };
    std::vector<std::string> sources;
    int whole = -1;
    for (const Part* part : written) {
      const bool ends = part == written.back() && firsts.empty();
      const int before = std::exchange(whole, ends ? result : graph_.AddValue(Image(result)));
      ir::Node& maker = change(part->maker);
      maker.attributes["y_first"] = part->first;
      maker.attributes["y_channels"] = all;
      maker.inputs.resize(kExtended + 1, -1);
      maker.inputs[kExtended] = before;
      maker.outputs = {whole};
      sources.insert(sources.end(), maker.sources.begin(), maker.sources.end());
      for (const int cutter : part->cutters) {
        sources.insert(sources.end(), node(cutter).sources.begin(), node(cutter).sources.end());
      }
      for (size_t i = 0; i < part->values.size(); ++i) {
        for (const auto& [reader, input] : match_.uses().readers(part->values[i])) {
          if (reader == index) continue;
          ir::Node& conv = change(reader);
          conv.inputs[static_cast<size_t>(input)] = whole;
          conv.attributes[FirstOf(static_cast<size_t>(input))] = part->first + part->offsets[i];
        }
      }
    }
    sources.insert(sources.end(), concat.sources.begin(), concat.sources.end());
    rest.inputs[0] = whole;
    if (!firsts.empty()) changed[index] = std::move(rest);
    const auto is_supported = [&](const auto& entry) { return context_.IsSupported(graph_, entry.second); };
    if (!std::ranges::all_of(changed, is_supported)) {
      context_.notes.push_back({Fusion::kImageParts, concat.sources, "a convolution takes no parts of images"});
      return;
    }
    if (firsts.empty()) gone_.Mark(index);
    for (auto& [n, made] : changed) graph_.nodes[static_cast<size_t>(n)] = std::move(made);
    context_.notes.push_back({Fusion::kImageParts, std::move(sources)});
  }

  // A value like another, of which not all is written yet.
  ir::Value Image(int like) const {
    const ir::Value& value = graph_.value(like);
    return {.name = value.name, .type = value.type, .dims = value.dims};
  }

  ir::Graph& graph_;
  const PassContext& context_;
  const Matcher match_;  // of the graph as it was
  NodeRemoval gone_;
};

}  // namespace

void PlaceImageParts(ir::Graph& graph, const PassContext& context) {
  Placer placer(graph, context);
  const auto count = static_cast<int>(graph.nodes.size());
  for (int n = 0; n < count; ++n) placer.Place(n);
  placer.Finish();
}

}  // namespace cudaep::graph
