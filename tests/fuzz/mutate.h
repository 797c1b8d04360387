// Changes to models, from one wrong attribute to graphs sewn together from several seeds.
//
// A change mostly keeps the rest consistent (a tensor keeps as many bytes as its shape says), so that the host's own
// checks let the model through to the provider; some changes break exactly that. Never fails: what cannot be applied
// leaves the model as it is.
#pragma once

#include <string>
#include <vector>

#include "onnx_model.h"
#include "random.h"

namespace cudaep::fuzz {

// What changes are drawn from. Texts, names and operators are those that occur in the seeds.
struct Pool {
  explicit Pool(std::vector<Model> seeds);

  std::vector<Model> models;
  std::vector<Attribute> attributes;
  std::vector<std::pair<std::string, std::string>> operators;  // domain, name
};

// A model for the generator's state: a seed, or some of them joined, with none to several changes.
Model DrawModel(const Pool& pool, Random& random);

// Flips, drops, repeats and inserts bytes.
void ChangeBytes(std::string* bytes, Random& random);

}  // namespace cudaep::fuzz
