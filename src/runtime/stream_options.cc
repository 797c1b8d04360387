#include "runtime/stream_options.h"

#include "runtime/option_parsing.h"

namespace cudaep {
namespace {

using option_parsing::IgnoreBool;
using option_parsing::IsFlag;
using option_parsing::kBool;
using option_parsing::kPointer;
using option_parsing::ParsePointer;
using option_parsing::SetBool;

bool SetUserStream(Settings& settings, std::string_view value) {
  // A stream of 0 is the legacy default stream, so the pointer alone cannot say whether one was given.
  settings.has_user_stream = true;
  return ParsePointer(value, &settings.user_stream);
}

constexpr OptionKind kUpstream = OptionKind::kUpstream;

constexpr OptionRow kTable[] = {
    {"user_compute_stream", kPointer, "none", "stream of the caller that all work is queued on", SetUserStream, nullptr,
     kUpstream},
    {"has_user_compute_stream", kBool, "0", "confirms that user_compute_stream is set", IgnoreBool, nullptr, kUpstream},
    {"order_with_legacy_stream", kBool, "0",
     "1: a Run starts after what the legacy default stream was given before, and that stream's later work after the "
     "Run",
     SetBool<&Settings::order_with_legacy_stream>, nullptr},
    {"do_copy_in_default_stream", kBool, "1", "0: copies between host and device run on a stream of their own",
     SetBool<&Settings::copy_in_default_stream>, nullptr, kUpstream},
    {"use_ep_level_unified_stream", kBool, "0", "1: all work of the session on one stream; Runs take turns",
     SetBool<&Settings::unified_stream>, nullptr, kUpstream},
};

}  // namespace

std::span<const OptionRow> StreamOptions() { return kTable; }

Status CheckStreamOptions(const OptionList& given, Settings& settings) {
  if (!settings.has_user_stream) {
    if (!IsFlag(given, "has_user_compute_stream", true)) return Status::Ok();
    return InvalidArgument("provider option has_user_compute_stream is set, but user_compute_stream is not");
  }
  if (IsFlag(given, "has_user_compute_stream", false)) {
    if (settings.user_stream != nullptr) {
      return InvalidArgument("provider options user_compute_stream='", settings.user_stream,
                             "' and has_user_compute_stream='0' contradict each other");
    }
    settings.has_user_stream = false;  // how applications write down that there is none
    return Status::Ok();
  }
  if (settings.order_with_legacy_stream) {
    return InvalidArgument("provider options user_compute_stream='", settings.user_stream,
                           "' and order_with_legacy_stream='1' contradict each other: a stream of the caller's is "
                           "ordered as the caller made it");
  }
  return Status::Ok();
}

}  // namespace cudaep
