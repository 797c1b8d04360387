// The schemas of the project's own operators, which no host has: a domain of custom operators that the factory hands to
// the host, one for each operator with rows in ops::kOwnDomain.
//
// They are schemas alone. The nodes run on kernels of the registry like any other; one that ends up on the CPU provider
// fails its session.
// Ownership: owned by the factory; the host reads them while session options or sessions use the domain.
#pragma once

#include <list>
#include <memory>

#include "abi/host.h"

namespace cudaep::abi {

class CustomOperators {
 public:
  static Result<std::unique_ptr<CustomOperators>> Create();
  ~CustomOperators();
  CustomOperators(const CustomOperators&) = delete;
  CustomOperators& operator=(const CustomOperators&) = delete;

  OrtCustomOpDomain* domain() const { return domain_; }

 private:
  struct Schema;
  CustomOperators() = default;

  OrtCustomOpDomain* domain_ = nullptr;
  std::list<Schema> schemas_;
};

}  // namespace cudaep::abi
