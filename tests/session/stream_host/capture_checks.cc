#include "capture_checks.h"

#include <functional>

#include "application.h"

namespace cudaep::stream_host {
namespace {

constexpr int kValues = 6;

// What a Run says inside the caller's capture, empty when it says nothing; `*graph` is what was captured then. The
// capture itself must stay whole either way.
std::string RunInCapture(Lane& lane, void* stream, void** graph) {
  std::string text;
  Check(probe->capture_begin(stream));
  try {
    lane.Enqueue();
  } catch (const std::exception& error) {
    text = error.what();
    if (text.empty()) text = "an error without text";
  }
  Check(probe->capture_end(stream, graph));
  return text;
}

// An application's stream, for as long as the check.
class CallerStream {
 public:
  ~CallerStream() { probe->stream_destroy(handle_); }
  CallerStream() = default;
  CallerStream(const CallerStream&) = delete;
  CallerStream& operator=(const CallerStream&) = delete;
  void* get() const { return handle_; }

 private:
  void* const handle_ = probe->stream_create(0, 0);
};

// A Run can be captured, and the graph does with other inputs what the Run does.
void CapturesAndReplays(Lane& lane, void* stream) {
  std::vector<std::vector<float>> expected;
  for (int i = 0; i < kValues; ++i) expected.push_back(lane.Run(static_cast<float>(i) * 0.37f));
  void* graph = nullptr;
  const std::string text = RunInCapture(lane, stream, &graph);
  if (!text.empty()) Fail(text);
  for (int i = 0; i < kValues; ++i) {
    const auto found = lane.Run(static_cast<float>(i) * 0.37f, [&] { Check(probe->graph_launch(graph, stream)); });
    if (found != expected[static_cast<size_t>(i)]) Fail("the replay gives other numbers");
  }
  if (lane.Run(0.37f) != expected[1]) Fail("a Run after the replays gives other numbers");
  Check(probe->graph_destroy(graph));
}

struct Subject {
  const char* model = "products";
  Form form = {};
  bool cpu_too = false;
  bool may_work = false;  // on some hosts
};

// A Run is refused in a capture with a status of this text, after `prepare`. Neither the capture nor the session
// suffers: the next Run computes what another session does that was never captured.
void IsRefused(const char* named, const Subject& subject,
               const std::function<void(Ort::Session&, Ort::SyncStream& stream, Ort::SyncStream& elsewhere)>& prepare) {
  const CallerStream handle;
  Ort::Session session = Open(subject.model, subject.cpu_too), other = Open(subject.model, subject.cpu_too);
  Ort::SyncStream stream = Wrap(handle.get()), elsewhere = OwnStream();
  prepare(session, stream, elsewhere);
  Lane lane(session, stream, subject.form);
  void* graph = nullptr;
  const std::string text = RunInCapture(lane, handle.get(), &graph);
  const bool works = subject.may_work && text.empty();
  if (!works && text.find(named) == std::string::npos) Fail("the Run in a capture says: '" + text + "'");
  if (works && lane.Run(2.0f, [&] { Check(probe->graph_launch(graph, handle.get())); }) != lane.Run(2.0f)) {
    Fail("the replay gives other numbers");
  }
  Check(probe->graph_destroy(graph));
  if (lane.Run(0.37f) != Lane(other, stream, subject.form).Run(0.37f)) {
    Fail("a Run after the refusal gives other numbers");
  }
}

// Shapes and stream are known to the session.
auto RunOnce(const Form& form) {
  return [form](Ort::Session& session, Ort::SyncStream& stream, auto&) { Lane(session, stream, form).Run(1.0f); };
}

const Form kMedium{{1100, 64}, {1100, 64}}, kLarge{{4000, 64}, {4000, 64}};

}  // namespace

void CheckTheCallerCapturesARun() {
  for (const Place in : {Place::kDevice, Place::kPinned}) {
    for (const Place out : {Place::kDevice, Place::kPinned}) {
      const CallerStream handle;
      Ort::Session session = Open();
      Ort::SyncStream stream = Wrap(handle.get());
      Lane lane(session, stream, {.in_place = in, .out_place = out});
      CapturesAndReplays(lane, handle.get());
    }
  }
}

void CheckAColdRunInACaptureIsRefused() {
  IsRefused("new to the session", {}, [](auto&, auto&, auto&) {});
  IsRefused("these shapes are new to the node", {.form = kMedium},
            [](Ort::Session& session, Ort::SyncStream& stream, auto&) { Lane(session, stream).Run(1.0f); });
}

// The session knows the shapes from another stream, and the stream from smaller ones.
void CheckMemoryThatMustGrowInACaptureIsRefused() {
  const auto refused = [](const char* named, const Subject& subject) {
    IsRefused(named, subject, [&](Ort::Session& session, Ort::SyncStream& stream, Ort::SyncStream& elsewhere) {
      Lane(session, elsewhere, subject.form).Run(1.0f);
      Lane(session, stream).Run(1.0f);
    });
  };
  refused("workspace must grow", {.model = "sorts", .form = kMedium});
  // Some hosts name no stream when they ask for the memory of tensors.
  refused("the arena has no free chunk", {.model = "sums", .form = kLarge, .may_work = true});
}

void CheckCopiesOfHostMemoryInACaptureAreRefused() {
  for (const Form& form : {Form{.in_place = Place::kHost}, Form{.out_place = Place::kHost}}) {
    IsRefused("cannot hold a copy of ordinary host memory", {.form = form}, RunOnce(form));
  }
}

void CheckANodeOnTheCpuInACaptureIsRefused() {
  const Form form{{3, 3}, {3, 3}};
  IsRefused("Memcpy", {.model = "through_the_cpu", .form = form, .cpu_too = true}, RunOnce(form));
}

void CheckALoopRunsOnACallersStream() {
  for (const char* model : {"loop", "loop_on_values"}) {
    const CallerStream handle;
    Ort::Session session = Open(model, true);
    Ort::SyncStream stream = Wrap(handle.get());
    Lane lane(session, stream);
    for (int i = 0; i < kValues; ++i) {
      const auto value = static_cast<float>(i);
      if (lane.Run(value) != std::vector<float>(5 * 64, 4 * value)) Fail("the Loop gives other numbers");
    }
  }
}

// Whether the host waits inside a Loop that counts to a constant differs between hosts.
void CheckALoopInACaptureWorksOrIsRefused() {
  IsRefused("Memcpy", {.model = "loop_on_values", .cpu_too = true}, RunOnce({}));
  const CallerStream handle;
  Ort::Session session = Open("loop", true);
  Ort::SyncStream stream = Wrap(handle.get());
  Lane lane(session, stream);
  lane.Run(1.0f);
  void* graph = nullptr;
  const std::string text = RunInCapture(lane, handle.get(), &graph);
  Check(probe->graph_destroy(graph));
  if (text.empty()) return CapturesAndReplays(lane, handle.get());
  if (text.find("the host waits for the Run's stream") == std::string::npos) Fail(text);
  if (lane.Run(2.0f) != std::vector<float>(5 * 64, 8.0f)) Fail("a Run after the refusal gives other numbers");
}

// The host replays without a word about the stream of the Run. Older hosts capture nothing.
void CheckAGivenStreamIsNoPartOfTheHostsGraphs() {
  const CallerStream handle;
  std::string text;
  try {
    Ort::Session session = Open("products", false, "enable_cuda_graph");
    Ort::SyncStream stream = Wrap(handle.get());
    Lane lane(session, stream);
    lane.Run(1.0f);
  } catch (const Ort::Exception& error) {
    text = error.what();
  }
  const bool refused = text.find("the Run was given a stream") != std::string::npos;
  const bool too_old = text.find("enable_cuda_graph='1' needs ONNX Runtime") != std::string::npos;
  if (!refused && !too_old) Fail("the Run on a given stream says: '" + text + "'");
}

}  // namespace cudaep::stream_host
