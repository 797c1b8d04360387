// A decoder's attention, as exporters write it: heads split, queries and keys rotated, keys and values appended to past
// ones and repeated for groups of heads.
#pragma once

#include <algorithm>

#include "ops/registry.h"
#include "transformer_net.h"

namespace cudaep::graph {

// For tests of some passes: without chains and these.
inline Settings Without(std::initializer_list<Fusion> fusions) {
  Settings settings = WithoutChains();
  for (const Fusion fusion : fusions) settings.fusion_skip.Add(fusion);
  return settings;
}

inline Settings WithoutProjections() { return Without({Fusion::kProjections, Fusion::kProductEpilogue}); }

inline int64_t Count(const Net& net, const char* op) { return std::ranges::count(net.Operators(), op); }

inline const ir::Node* Find(const Net& net, const char* op, const char* domain = ops::kFusedDomain) {
  const auto found = std::ranges::find_if(net.graph.nodes, [&](const ir::Node& node) { return node.Is(op, domain); });
  return found == net.graph.nodes.end() ? nullptr : &*found;
}

// What the first node is left alone for.
inline std::string Missed(const std::vector<FusionNote>& notes) {
  for (const FusionNote& note : notes) {
    if (!note.missed.empty()) return note.missed;
  }
  return "";
}

inline constexpr int64_t kKvHeads = 1;
inline const Dim kPast = {kUnknownDim, "past"};

// Angles of heads that are turned to the front behind the rotation, or before.
inline std::vector<Dim> CacheOf(bool late_turn) {
  return late_turn ? std::vector<Dim>{{1}, kRows, {1}, {kSize}} : std::vector<Dim>{{1}, {1}, kRows, {kSize}};
}

struct DecoderSpelling {
  bool interleaved = false;   // neighbours are pairs, not halves
  bool nothing_left = false;  // behind whole heads that are rotated, and joined to it
  bool split = false;         // halves by Split, not by Slice; neighbours apart by Reshape, not by Unsqueeze
  bool negative = false;      // axes and positions counted from the end
  bool turned = false;        // which factor and which summand is first
  bool norms = false;         // of each head of queries and keys
  bool norm_last = false;     // behind the rotation
  bool late_turn = false;     // heads go to the front behind the rotation
  bool late_keys = false;     // those of keys alone, by angles that are turned for it
  bool one_turned = false;    // cosines as others have them, turned for it, sines as they are (with late_turn)
  bool rotated = true, past = true, leaves = true, repeated = true;
  bool one_product = false;  // the model's own, cut into parts
  int64_t head_parts = 0;    // of each head of one product: queries, keys, values, others
  int64_t dim = kSize;       // of a head that is rotated
  std::vector<Dim> cache = {{1}, {1}, kRows, {kSize}};
};

struct DecoderNet : Net {
  explicit DecoderNet(const DecoderSpelling& spelling = {}) : s(spelling) {
    x = Hidden("x");
    if (s.rotated) cos = Input("cos", s.cache), sin = Input("sin", s.one_turned ? CacheOf(true) : s.cache);
    if (s.one_turned) cos = Turned(cos, {0, 2, 1, 3});
    const int64_t kv = s.repeated ? kKvHeads : kHeads;
    const int64_t columns[3] = {kHeads * kSize, kv * kSize, kv * kSize};
    if (s.one_product) {
      const int whole = Op("MatMul", {x, Constant("w", {kHidden, columns[0] + columns[1] + columns[2]})});
      int64_t at = 0;
      for (int i = 0; i < 3; at += columns[i++]) projected[i] = Part(whole, at, at + columns[i], 3);
    }
    int packed = -1;
    if (s.head_parts != 0) {
      const int64_t row = s.head_parts * kSize;
      projected[0] = Op("MatMul", {x, Constant("w", {kHidden, kHeads * row})});
      packed = Wide("Reshape", {projected[0], Ints("split", {0, 0, kHeads, row})});
      if (!s.late_turn) packed = Turned(packed, {0, 2, 1, 3});
    }
    for (int i = 0; i < 3 && !s.one_product && packed < 0; ++i) {
      weights[i] = Constant("w", {kHidden, columns[i]});
      projected[i] = Op("MatMul", {x, weights[i]});
    }
    int heads[3];
    for (int i = 0; i < 3; ++i) {
      heads[i] = packed >= 0 ? Part(packed, i * kSize, (i + 1) * kSize)
                             : Wide("Reshape", {projected[i], Ints("split", {0, 0, i == 0 ? kHeads : kv, kSize})});
      const bool normalises = s.norms && i < 2;
      if (normalises && !s.norm_last) heads[i] = Normalised(heads[i]);
      const bool rotates = s.rotated && i < 2;
      const bool late = s.late_turn || (s.late_keys && i == 1);
      const auto angles = [&](int value) { return late && s.late_keys ? Turned(value, {0, 2, 1, 3}) : value; };
      if (rotates && late) heads[i] = Rotated(heads[i], angles(cos), angles(sin));
      if (normalises && s.norm_last && late) heads[i] = Normalised(heads[i]);
      if (packed < 0 || s.late_turn) heads[i] = Turned(heads[i], {0, 2, 1, 3});
      if (rotates && !late) heads[i] = Rotated(heads[i], cos, sin);
      if (normalises && s.norm_last && !late) heads[i] = Normalised(heads[i]);
    }
    for (int i = 1; i < 3; ++i) {
      if (s.past) {
        past[i - 1] = Input("past", {kBatch, {kv}, kPast, {kSize}});
        heads[i] = Wide("Concat", {past[i - 1], heads[i]}, {{"axis", int64_t{s.negative ? -2 : 2}}});
      }
      present[i - 1] = heads[i];
      if (s.leaves) Output(heads[i]);
      if (s.repeated) heads[i] = Repeated(heads[i]);
    }
    q = heads[0], k = heads[1], v = heads[2];
    const int scores = Wide("Mul", {Wide("MatMul", {q, Turned(k, {0, 1, 3, 2})}), Scalar(0.5f)});
    product = Wide("MatMul", {Open("Softmax", 13, {scores}, 4, {{"axis", int64_t{-1}}}), v});
    merged = Open("Reshape", 13, {Turned(product, {0, 2, 1, 3}), Ints("merged", {0, 0, kHidden})}, 3);
    Output(merged);
  }

  int Wide(const char* op, std::vector<int> inputs, ops::Attributes attributes = {}) {
    return Open(op, 13, std::move(inputs), 4, std::move(attributes));
  }
  int Turned(int value, std::vector<int64_t> perm) {
    return Open("Transpose", 13, {value}, perm.size(), {{"perm", perm}});
  }
  int Part(int value, int64_t begin, int64_t end, size_t rank = 4) {
    const int64_t last = s.negative ? -1 : static_cast<int64_t>(rank) - 1;
    return Open("Slice", 13, {value, Ints("i", {begin}), Ints("i", {end}), Ints("i", {last}), Ints("i", {1})}, rank);
  }
  int Normalised(int value) {
    return Open("RMSNormalization", 23, {value, norm = Constant("norm", {kSize})}, 4,
                {{"axis", int64_t{-1}}, {"epsilon", 1e-6f}});
  }
  int Join(int a, int b) { return Wide("Concat", {a, b}, {{"axis", int64_t{s.negative ? -1 : 3}}}); }
  int Rotated(int heads, int cosines, int sines) {
    const int some = s.dim == kSize ? heads : Part(heads, 0, s.dim);
    const int across = s.interleaved ? PairsTurned(some) : HalvesTurned(some);
    const auto both = [&](const char* op, int a, int b) {
      return Wide(op, s.turned ? std::vector<int>{b, a} : std::vector<int>{a, b});
    };
    const int y = both("Add", both("Mul", some, cosines), both("Mul", across, sines));
    return s.dim == kSize && !s.nothing_left ? y : Join(y, Part(heads, s.dim, INT64_MAX));
  }
  int HalvesTurned(int some) {
    int first, second;
    if (s.split) {
      first = Open("Split", 13, {some, Ints("i", {s.dim / 2, s.dim / 2})}, 4, {{"axis", int64_t{s.negative ? -1 : 3}}});
      graph.nodes.back().outputs.push_back(second = Value("second", std::vector<Dim>(4)));
    } else {
      first = Part(some, s.negative ? -s.dim : 0, s.dim / 2);
      second = Part(some, s.negative ? -s.dim / 2 : s.dim / 2, INT64_MAX);
    }
    return Join(Wide("Neg", {second}), first);
  }
  int PairsTurned(int some) {
    const auto every_other = [&](int64_t begin) {
      return Wide("Slice", {some, Ints("begin", {begin}), Ints("end", {INT64_MAX}), Ints("axis", {s.negative ? -1 : 3}),
                            Ints("step", {2})});
    };
    const auto apart = [&](int value) {
      return s.split ? Open("Reshape", 13, {value, Ints("column", {0, 0, 0, s.dim / 2, 1})}, 5)
                     : Open("Unsqueeze", 13, {value, Ints("axis", {s.negative ? -1 : 4})}, 5);
    };
    const int minus = Wide("Neg", {every_other(s.negative ? 1 - s.dim : 1)});
    const int pairs =
        Open("Concat", 13, {apart(minus), apart(every_other(0))}, 5, {{"axis", int64_t{s.negative ? -1 : 4}}});
    return Wide("Reshape", {pairs, Ints("rows", {0, 0, 0, s.dim})});
  }
  // Each head for all of its group.
  int Repeated(int value) {
    const int shape = OnHost("Shape", 13, {value}, 1);
    const auto part = [&](int64_t from, int64_t to) {
      return OnHost("Slice", 13, {shape, Ints("i", {from}), Ints("i", {to})}, 1);
    };
    const auto join = [&](std::vector<int> parts) {
      return OnHost("Concat", 13, std::move(parts), 1, {{"axis", int64_t{0}}});
    };
    const int batch = part(0, 1), rows = part(2, 4), group = Ints("group", {kHeads / kKvHeads});
    const int heads = Ints("heads", {kKvHeads});
    const int apart = Open("Unsqueeze", 13, {value, Ints("i", {2})}, 5);
    const int wide = Open("Expand", 13, {apart, join({batch, heads, group, rows})}, 5);
    return Wide("Reshape", {wide, join({batch, Ints("all", {kHeads}), rows})});
  }
  void Insert(int64_t at, const char* op, int version, std::vector<int> inputs, int output) {
    graph.nodes.insert(graph.nodes.begin() + at, {.name = op,
                                                  .op_type = op,
                                                  .since_version = version,
                                                  .inputs = std::move(inputs),
                                                  .outputs = {output},
                                                  .sources = {op}});
  }
  // The node that makes a value; null: none.
  const ir::Node* MakerOf(int value) const {
    for (const ir::Node& node : graph.nodes) {
      if (std::find(node.outputs.begin(), node.outputs.end(), value) != node.outputs.end()) return &node;
    }
    return nullptr;
  }

  DecoderSpelling s;
  int x, cos = -1, sin = -1, norm = -1, projected[3], weights[3] = {-1, -1, -1}, past[2] = {-1, -1}, present[2];
  int q, k, v, product, merged;
};

}  // namespace cudaep::graph
