// One session, several streams of the application's: each thread queues its Runs without waiting, and waits once at the
// end.
#include <thread>

#include "application.h"

namespace {

// A stream, with device memory that only this thread uses.
class Lane {
 public:
  Lane(Application& application, Ort::Session& session, unsigned seed)
      : application_(application),
        session_(session),
        in_(Form::Input(session)),
        out_(Form::Output(session)),
        values_(in_.Values(seed)),
        x_(in_.Device(application.DeviceAllocator())),
        y_(out_.Device(application.DeviceAllocator())),
        stream_(application.devices.front().CreateSyncStream()),
        binding_(session) {
    binding_.BindInput(in_.name.c_str(), x_);
    binding_.BindOutput(out_.name.c_str(), y_);
    run_.SetSyncStream(stream_);
    run_.AddConfigEntry("disable_synchronize_execution_providers", "1");
  }

  // Copies and Runs are in the order of the stream; nothing here waits for the device but the last copy.
  void Work(int runs) {
    const Ort::Value host = in_.Host(values_);
    Ort::ThrowOnError(application_.env.CopyTensor(host, x_, stream_));
    for (int i = 0; i < runs; ++i) session_.Run(run_, binding_);
    result_.resize(out_.count);
    Ort::Value host_result = out_.Host(result_);
    Ort::ThrowOnError(application_.env.CopyTensor(y_, host_result, stream_));
  }

  bool IsRight() { return result_ == Run(session_, values_); }

 private:
  Application& application_;
  Ort::Session& session_;
  const Form in_, out_;
  std::vector<float> values_, result_;
  Ort::Value x_, y_;
  Ort::SyncStream stream_;
  Ort::IoBinding binding_;
  Ort::RunOptions run_;
};

}  // namespace

int main(int argc, char** argv) {
  return RunExample(argc, argv, [](Application& application, const char* model) {
    constexpr unsigned kStreams = 4;
    Ort::Session session = application.Open(model);
    std::vector<Lane> lanes;
    lanes.reserve(kStreams);
    for (unsigned seed = 0; seed < kStreams; ++seed) lanes.emplace_back(application, session, seed);
    std::vector<std::thread> threads;
    std::vector<std::exception_ptr> errors(kStreams);
    for (size_t i = 0; i < lanes.size(); ++i) {
      threads.emplace_back([&, i] {
        try {
          lanes[i].Work(10);
        } catch (...) {
          errors[i] = std::current_exception();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::exception_ptr& error : errors) {
      if (error) std::rethrow_exception(error);
    }
    for (Lane& lane : lanes) {
      if (!lane.IsRight()) throw Ort::Exception("a stream has other results than a Run by itself", ORT_FAIL);
    }
    std::printf("%u streams, results as one by one\n", kStreams);
  });
}
