// The options that say which streams a session's work runs on.
#include <gtest/gtest.h>

#include "runtime/options_table.h"

namespace cudaep {
namespace {

Settings Parsed(const OptionList& options) {
  Result<Settings> settings = ParseOptions(options);
  EXPECT_TRUE(settings.ok()) << settings.status().ToString();
  return settings.ok() ? settings.value() : Settings{};
}

std::string ErrorOf(const OptionList& options) {
  const Status status = ParseOptions(options).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(StreamOptions, Defaults) {
  const Settings settings = Parsed({});
  EXPECT_FALSE(settings.has_user_stream);
  EXPECT_FALSE(settings.order_with_legacy_stream);
  EXPECT_TRUE(settings.copy_in_default_stream);
  EXPECT_FALSE(settings.unified_stream);
  EXPECT_FALSE(settings.deterministic);
}

TEST(StreamOptions, EachReachesItsSetting) {
  EXPECT_TRUE(Parsed({{"order_with_legacy_stream", "1"}}).order_with_legacy_stream);
  EXPECT_FALSE(Parsed({{"do_copy_in_default_stream", "0"}}).copy_in_default_stream);
  EXPECT_TRUE(Parsed({{"use_ep_level_unified_stream", "true"}}).unified_stream);
  EXPECT_TRUE(Parsed({{"deterministic_compute", "1"}}).deterministic);
}

TEST(StreamOptions, TheFlagMayComeBeforeOrAfterThePointer) {
  for (const OptionList& options : {OptionList{{"has_user_compute_stream", "1"}, {"user_compute_stream", "0x40"}},
                                    OptionList{{"user_compute_stream", "64"}, {"has_user_compute_stream", "1"}},
                                    OptionList{{"user_compute_stream", "64"}}}) {
    const Settings settings = Parsed(options);
    EXPECT_TRUE(settings.has_user_stream);
    EXPECT_EQ(settings.user_stream, reinterpret_cast<void*>(64));
  }
}

// As applications and other providers write their defaults.
TEST(StreamOptions, AFlagOfZeroWithANullPointerMeansNone) {
  EXPECT_FALSE(Parsed({{"has_user_compute_stream", "0"}, {"user_compute_stream", "0"}}).has_user_stream);
  EXPECT_TRUE(Parsed({{"has_user_compute_stream", "1"}, {"user_compute_stream", "0"}}).has_user_stream);
}

TEST(StreamOptions, ContradictionsAreNamed) {
  const std::string flag = ErrorOf({{"has_user_compute_stream", "0"}, {"user_compute_stream", "64"}});
  EXPECT_NE(flag.find("user_compute_stream='0x40' and has_user_compute_stream='0' contradict"), std::string::npos)
      << flag;
  const std::string order = ErrorOf({{"order_with_legacy_stream", "1"}, {"user_compute_stream", "64"}});
  EXPECT_NE(order.find("order_with_legacy_stream='1' contradict"), std::string::npos) << order;
  EXPECT_TRUE(ParseOptions({{"order_with_legacy_stream", "0"}, {"user_compute_stream", "64"}}).ok());
}

TEST(StreamOptions, TheCallersAllocatorKnowsTheStreamThatItsBlocksBelongTo) {
  const Settings settings =
      Parsed({{"gpu_external_alloc", "16"}, {"gpu_external_free", "16"}, {"user_compute_stream", "64"}});
  EXPECT_EQ(static_cast<const void*>(settings.memory.external.caller_stream), reinterpret_cast<const void*>(64));
}

}  // namespace
}  // namespace cudaep
