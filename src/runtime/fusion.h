// The rewritings of compiled regions (graph/pass), as the option `fusion_skip` names them.
#pragma once

#include <cstdint>
#include <string_view>

namespace cudaep {

// In the order in which they run, but for gated_products, which follow projections. kFusionNames has the same order.
enum class Fusion : uint8_t {
  kEmbeddingBag,
  kQdq,
  kConvAffine,
  kConvEpilogue,
  kGroupNorm,
  kChannelsLast,
  kStemPool,
  kImageParts,
  kActivation,
  kNorm,
  kJoins,
  kViews,
  kRotary,
  kAttention,
  kDecoderAttention,
  kProductEpilogue,
  kProjections,
  kEmbedding,
  kSkipNorm,
  kChains,
  kGatedProducts,
  kShortProducts,
  kNormProducts,
  kOnce,
};
inline constexpr int kFusionCount = 24;
inline constexpr const char* kFusionNames =
    "embedding_bag,qdq,conv_affine,conv_epilogue,group_norm,channels_last,stem_pool,image_parts,activation,norm,joins,"
    "views,rotary,attention,decoder_attention,product_epilogue,projections,embedding,skip_norm,chains,gated_products,"
    "short_products,norm_products,once";

constexpr std::string_view FusionName(Fusion fusion) {
  std::string_view rest = kFusionNames;
  for (int i = static_cast<int>(fusion); i > 0; --i) rest.remove_prefix(rest.find(',') + 1);
  return rest.substr(0, rest.find(','));
}

class FusionSet {
 public:
  constexpr bool Contains(Fusion fusion) const { return (bits_ & Bit(fusion)) != 0; }
  constexpr void Add(Fusion fusion) { bits_ |= Bit(fusion); }
  // Names with commas between; false for one that there is not.
  constexpr bool AddNames(std::string_view names) {
    while (!names.empty()) {
      const std::string_view name = names.substr(0, names.find(','));
      int found = 0;
      while (found < kFusionCount && FusionName(static_cast<Fusion>(found)) != name) ++found;
      if (found == kFusionCount) return false;
      Add(static_cast<Fusion>(found));
      names.remove_prefix(name.size() == names.size() ? name.size() : name.size() + 1);
    }
    return true;
  }

 private:
  static constexpr uint32_t Bit(Fusion fusion) { return uint32_t{1} << static_cast<int>(fusion); }
  uint32_t bits_ = 0;
};

}  // namespace cudaep
