// Models that the host itself dies of, with its own CPU provider too: the generator draws another one instead.
//
// Each has a file in corpus/host; a bug that a newer host no longer has loses its entry when the oldest supported host
// is past it.
#pragma once

#include "onnx_model.h"

namespace cudaep::fuzz {

// What is wrong with the model, or null.
const char* KnownHostBug(const Model& model);

}  // namespace cudaep::fuzz
