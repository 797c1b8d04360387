#include "lane.h"

#include <cstring>

namespace cudaep::run_rate {

Lane::Lane(const Subject& subject, size_t variant, Streams streams)
    : subject_(subject), variant_(variant), binding_(subject.session()) {
  if (streams == Streams::kCallers) {
    stream_ = host_api::MakeStream(subject.device());
    options_.SetSyncStream(stream_);
  }
  for (size_t i = 0; i < subject.InputNames().size(); ++i) {
    const Ort::Value& input = subject.Inputs(variant)[i];
    const char* name = subject.InputNames()[i].c_str();
    if (subject.CanCopy()) {
      inputs_.push_back(subject.OnDevice(input));
      subject.Copy(input, inputs_.back());
      binding_.BindInput(name, inputs_.back());
    } else {
      binding_.BindInput(name, input);
    }
  }
  binding_.SynchronizeInputs();
  for (size_t i = 0; i < subject.OutputNames().size(); ++i) {
    const Ort::Value& expected = subject.Expected(variant)[i];
    outputs_.push_back(subject.OnDevice(expected));
    binding_.BindOutput(subject.OutputNames()[i].c_str(), outputs_.back());
    noise_.push_back(OnHost(expected));
    std::memset(noise_.back().GetTensorMutableRawData(), 0xff, noise_.back().GetTensorSizeInBytes());
    found_.push_back(OnHost(expected));
  }
}

void Lane::Run() { subject_.session().Run(options_, binding_); }

double Lane::CheckedRun() {
  if (!subject_.CanCopy()) return Run(), 0;
  for (size_t i = 0; i < outputs_.size(); ++i) subject_.Copy(noise_[i], outputs_[i]);
  Run();
  for (size_t i = 0; i < outputs_.size(); ++i) subject_.Copy(outputs_[i], found_[i]);
  return subject_.Compare(subject_.Expected(variant_), found_);
}

}  // namespace cudaep::run_rate
