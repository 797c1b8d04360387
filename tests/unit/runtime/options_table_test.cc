#include "runtime/options_table.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "core/log.h"
#include "core/strings.h"
#include "runtime/ignored_options.h"

namespace cudaep {
namespace {

Settings Parsed(const OptionList& options) {
  Result<Settings> settings = ParseOptions(options);
  EXPECT_TRUE(settings.ok()) << settings.status().ToString();
  return settings.ok() ? settings.value() : Settings{};
}

TEST(Options, Defaults) {
  const Settings settings = Parsed({});
  EXPECT_TRUE(settings.use_tf32);
  EXPECT_TRUE(settings.enable_cudnn);
  EXPECT_FALSE(settings.has_user_stream);
}

TEST(Options, EveryKindParses) {
  const Settings settings = Parsed({{"device_id", "1"},
                                    {"use_tf32", "0"},
                                    {"cudnn_conv_algo_search", "EXHAUSTIVE"},
                                    {"gpu_mem_limit", "18446744073709551615"},
                                    {"user_compute_stream", "0x10"},
                                    {"has_user_compute_stream", "1"},
                                    {"budget_dynamic_dim", "8"}});
  EXPECT_EQ(settings.budget_dynamic_dim, 8);
  EXPECT_EQ(settings.device_ordinal, 1);
  EXPECT_FALSE(settings.use_tf32);
  EXPECT_EQ(settings.conv_search, ConvSearch::kExhaustive);
  EXPECT_EQ(settings.memory.limit_bytes, 0u);  // the greatest number stands for none
  EXPECT_EQ(settings.user_stream, reinterpret_cast<void*>(0x10));
}

TEST(Options, AUserStreamOfZeroIsTheLegacyStream) {
  const Settings settings = Parsed({{"user_compute_stream", "0"}});
  EXPECT_TRUE(settings.has_user_stream);
  EXPECT_EQ(settings.user_stream, nullptr);
}

TEST(Options, UnknownNamesAreRefusedByName) {
  const Status status = ParseOptions({{"gpu_memory_limit", "5"}}).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(status.message().starts_with("unknown provider option 'gpu_memory_limit'; known: device_id, "));
}

struct Malformed {
  const char* name;
  const char* value;
};

class MalformedOption : public testing::TestWithParam<Malformed> {};

TEST_P(MalformedOption, IsRefusedWithNameValueAndChoices) {
  const Status status = ParseOptions({{GetParam().name, GetParam().value}}).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find(StrCat(GetParam().name, "='", GetParam().value, "' is malformed; accepted: ")),
            std::string_view::npos)
      << status.message();
}

INSTANTIATE_TEST_SUITE_P(
    Values, MalformedOption,
    testing::Values(Malformed{"gpu_mem_limit", "-5"}, Malformed{"gpu_mem_limit", "0"}, Malformed{"gpu_mem_limit", ""},
                    Malformed{"gpu_mem_limit", "18446744073709551616"}, Malformed{"gpu_mem_limit", "1e9"},
                    Malformed{"gpu_mem_limit", "5 "}, Malformed{"device_id", "-1"}, Malformed{"device_id", "cuda:0"},
                    Malformed{"use_tf32", "yes"}, Malformed{"use_tf32", ""}, Malformed{"use_tf32", "2"},
                    Malformed{"has_user_compute_stream", "maybe"}, Malformed{"budget_dynamic_dim", "-1"},
                    Malformed{"cudnn_conv_algo_search", "FASTEST"}, Malformed{"user_compute_stream", "0xzz"},
                    Malformed{"user_compute_stream", "-1"}, Malformed{"sdpa_kernel", "abc"},
                    Malformed{"sdpa_kernel", ""}, Malformed{"fuse_conv_bias", "2"},
                    Malformed{"min_num_runs_before_cuda_graph_capture", "-5"},
                    Malformed{"min_num_runs_before_cuda_graph_capture", "0"},
                    Malformed{"min_num_runs_before_cuda_graph_capture", "8"}, Malformed{"cuda_graph_max_count", "0"},
                    Malformed{"tunable_op_max_tuning_duration_ms", "1s"}, Malformed{"enable_cuda_graph", "maybe"},
                    Malformed{"enable_gemm_auto_tune", "any"}, Malformed{"fpa_intb_gemm", "On"},
                    Malformed{"fpa_intb_profile_m", "1,,8"}, Malformed{"fpa_intb_profile_m", "1,x"},
                    Malformed{"gqa_workspace_max_total_sequence_length", "-1"},
                    Malformed{"gemm_tactic_cache_prefix", ""}, Malformed{"matmul_nbits_m_chunk_size", "-1"}));

TEST(Options, AFlagWithoutItsPointerIsAnError) {
  EXPECT_EQ(ParseOptions({{"has_user_compute_stream", "1"}}).status().message(),
            "provider option has_user_compute_stream is set, but user_compute_stream is not");
}

TEST(Options, AttentionKernelsAreNamedByUpstreamsBits) {
  EXPECT_EQ(ParseOptions({{"sdpa_kernel", "-8"}}).status().code(), StatusCode::kInvalidArgument);
  for (const auto& [value, by_cudnn] : {std::pair{"0", true}, std::pair{"8", true}, std::pair{"9", true},
                                        std::pair{"1", false}, std::pair{"16", false}}) {
    auto settings = ParseOptions({{"sdpa_kernel", value}});
    ASSERT_TRUE(settings.ok()) << value;
    EXPECT_EQ(settings->attention_by_cudnn, by_cudnn) << value;
  }
}

// What the host's and upstream's own documentation shows.
TEST(Options, UpstreamsKeysWithoutEffectAreAccepted) {
  for (const auto& [name, value] : OptionList{{"fpa_intb_gemm", "on"},
                                              {"fpa_intb_gemm", "off"},
                                              {"fpa_intb_gemm", "3"},
                                              {"fpa_intb_profile_m", "1,8, 64 ,2048"},
                                              {"gqa_workspace_max_total_sequence_length", "9223372036854775807"},
                                              {"gemm_tactic_cache_prefix", "/models/llm"},
                                              {"gemm_tactic_cache_dir", "/models"}}) {
    const Status status = ParseOptions({{name, value}}).status();
    EXPECT_TRUE(status.ok()) << status.ToString();
  }
}

TEST(Options, AnOptionWithoutEffectIsWarnedOfOnce) {
  std::vector<std::string> lines;
  const LogSink sink(
      [](void* state, LogLevel level, std::string_view text) {
        if (level == LogLevel::kWarning) static_cast<std::vector<std::string>*>(state)->emplace_back(text);
      },
      &lines);
  const OptionList given = {{"use_tf32", "1"}, {"fpa_intb_gemm", "on"}, {"fuse_conv_bias", "1"}};
  WarnOfIgnoredOptions(given);
  WarnOfIgnoredOptions(given);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_TRUE(lines[0].starts_with("provider option fpa_intb_gemm='on' is accepted, without effect here: "))
      << lines[0];
  EXPECT_TRUE(lines[1].starts_with("provider option fuse_conv_bias='1' is accepted, ")) << lines[1];
}

TEST(Options, MeasuringProductsNeedsUsingWhatWasMeasured) {
  const auto refused = ParseOptions({{"tunable_op_tuning_enable", "1"}});
  EXPECT_EQ(refused.status().message(), "provider option tunable_op_tuning_enable=1 needs tunable_op_enable=1");
  auto settings = ParseOptions(
      {{"tunable_op_enable", "1"}, {"tunable_op_tuning_enable", "1"}, {"tunable_op_max_tuning_duration_ms", "20"}});
  ASSERT_TRUE(settings.ok());
  EXPECT_TRUE(settings->measured_products && settings->measure_products);
  EXPECT_EQ(settings->most_measuring_ms, 20);
}

TEST(Options, GraphsAreCapturedWhenAskedFor) {
  EXPECT_FALSE(ParseOptions({{"enable_cuda_graph", "False"}}).value().enable_cuda_graph);
  const Settings settings =
      ParseOptions(
          {{"enable_cuda_graph", "1"}, {"min_num_runs_before_cuda_graph_capture", "7"}, {"cuda_graph_max_count", "3"}})
          .value();
  EXPECT_TRUE(settings.enable_cuda_graph);
  EXPECT_EQ(settings.graph_warm_up_runs, 7);
  EXPECT_EQ(settings.max_graphs, 3);
  EXPECT_TRUE(ParseOptions({{"enable_cuda_graph", "1"}, {"user_compute_stream", "4096"}}).ok());
  for (const char* legacy : {"0", "1"}) {
    const Status status = ParseOptions({{"enable_cuda_graph", "1"}, {"user_compute_stream", legacy}}).status();
    EXPECT_NE(status.message().find("the legacy default stream"), std::string::npos) << status.message();
    EXPECT_TRUE(ParseOptions({{"user_compute_stream", legacy}}).ok());
  }
}

TEST(Options, NoRowAcceptsAnything) {
  for (const OptionRow& row : OptionTable()) {
    if (std::string_view(row.accepts) == "a file's path") continue;
    EXPECT_FALSE(ParseOptions({{row.name, "no value"}}).ok()) << row.name;
  }
}

// An application that passes every option that other providers know, at those providers' defaults.
TEST(Options, DefaultsGivenAreAccepted) {
  for (const OptionRow& row : OptionTable()) {
    const std::string_view value = row.default_value;
    if (value.empty() || value == "none") continue;
    const Status status = ParseOptions({{row.name, std::string(value)}}).status();
    EXPECT_TRUE(status.ok()) << status.ToString();
  }
}

TEST(Options, TheTableIsWellFormed) {
  std::set<std::string_view> names;
  for (const OptionRow& row : OptionTable()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_NE(std::string_view(row.doc), "") << row.name;
    EXPECT_NE(std::string_view(row.accepts), "") << row.name;
  }
}

TEST(Options, TheDescriptionShowsWhatIsInForce) {
  const std::string text = DescribeOptions({{"use_tf32", "0"}});
  EXPECT_NE(text.find("use_tf32=0"), std::string::npos);
  EXPECT_NE(text.find("enable_cudnn=1"), std::string::npos);
}

}  // namespace
}  // namespace cudaep
