#include "ops/rnn/rnn_attributes.h"

#include <algorithm>
#include <cctype>

namespace cudaep::ops {
namespace {

using kernels::RnnActivation;
using kernels::RnnCell;

struct Named {
  std::string_view name;
  RnnActivation kind;
  int values;  // of alpha and beta, how many the function has
  float alpha = 0, beta = 0;
};

constexpr Named kFunctions[] = {
    {"affine", RnnActivation::kAffine, 2, 1.0f, 0.0f},
    {"elu", RnnActivation::kElu, 1, 1.0f},
    {"hardsigmoid", RnnActivation::kHardSigmoid, 2, 0.2f, 0.5f},
    {"leakyrelu", RnnActivation::kLeakyRelu, 1, 0.01f},
    {"relu", RnnActivation::kRelu, 0},
    {"scaledtanh", RnnActivation::kScaledTanh, 2, 1.0f, 1.0f},
    {"sigmoid", RnnActivation::kSigmoid, 0},
    {"softplus", RnnActivation::kSoftplus, 0},
    {"softsign", RnnActivation::kSoftsign, 0},
    {"tanh", RnnActivation::kTanh, 0},
    {"thresholdedrelu", RnnActivation::kThresholdedRelu, 1, 1.0f},
};

const Named* FindFunction(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto* const found =
      std::find_if(std::begin(kFunctions), std::end(kFunctions), [&](const Named& f) { return f.name == name; });
  return found == std::end(kFunctions) ? nullptr : found;
}

std::vector<std::string> DefaultFunctions(RnnCell cell) {
  switch (cell) {
    case RnnCell::kLstm:
      return {"Sigmoid", "Tanh", "Tanh"};
    case RnnCell::kGru:
      return {"Sigmoid", "Tanh"};
    case RnnCell::kRnn:
      break;
  }
  return {"Tanh"};
}

// Values of alpha and beta go to the functions that have them, in order; those left without one keep its default.
Status ParseFunctions(const OpInfo& info, RnnAttributes* out) {
  const std::vector<std::string> defaults = DefaultFunctions(out->cell);
  std::vector<std::string> names = info.Strings("activations").value_or(std::vector<std::string>());
  const size_t count = defaults.size() * static_cast<size_t>(out->directions);
  while (names.empty() || (names.size() < count && !info.Strings("activations"))) {
    names.insert(names.end(), defaults.begin(), defaults.end());
  }
  // The schema's default names two for RNN, whatever the direction.
  if (out->cell == RnnCell::kRnn && names.size() == 2) names.resize(count);
  if (names.size() != count) {
    return InvalidArgument("attribute activations has ", names.size(), " names, ", count, " are needed");
  }
  const std::vector<float> alphas = info.Floats("activation_alpha").value_or(std::vector<float>());
  const std::vector<float> betas = info.Floats("activation_beta").value_or(std::vector<float>());
  size_t alpha = 0, beta = 0;
  for (size_t i = 0; i < names.size(); ++i) {
    const Named* const named = FindFunction(names[i]);
    if (named == nullptr) return InvalidArgument("attribute activations has '", names[i], "', which is none of ONNX's");
    kernels::RnnFunction& function = out->functions[i / defaults.size()][i % defaults.size()];
    function = {.kind = named->kind, .alpha = named->alpha, .beta = named->beta};
    if (named->values > 0 && alpha < alphas.size()) function.alpha = alphas[alpha++];
    if (named->values > 1 && beta < betas.size()) function.beta = betas[beta++];
  }
  return Status::Ok();
}

}  // namespace

Result<RnnAttributes> ParseRnn(const OpInfo& info, RnnCell cell) {
  RnnAttributes out;
  out.cell = cell;
  const std::string direction = info.StringOr("direction", "forward");
  if (direction == "bidirectional") {
    out.directions = 2;
  } else if (direction == "reverse") {
    out.reverse = true;
  } else if (direction != "forward") {
    return InvalidArgument("attribute direction is '", direction, "', which ONNX does not define");
  }
  out.hidden_size = info.IntOr("hidden_size", -1);
  if (info.Int("hidden_size") && out.hidden_size <= 0) {
    return InvalidArgument("attribute hidden_size is ", out.hidden_size);
  }
  const int64_t layout = info.IntOr("layout", 0);
  if (layout != 0 && layout != 1) return InvalidArgument("attribute layout is ", layout);
  out.batch_first = layout == 1;
  out.clip = info.FloatOr("clip", 0.0f);
  if (info.Float("clip") && !(out.clip > 0.0f)) return InvalidArgument("attribute clip is ", out.clip);
  out.input_forget = cell == RnnCell::kLstm && info.BoolOr("input_forget", false);
  out.linear_before_reset = cell == RnnCell::kGru && info.BoolOr("linear_before_reset", false);
  CUDAEP_RETURN_IF_ERROR(ParseFunctions(info, &out));
  return out;
}

}  // namespace cudaep::ops
