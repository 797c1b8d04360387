// The execution provider of one session.
//
// Created and released by the factory. Owns the session's state together with the streams and kernels that share it.
#pragma once

#include <memory>
#include <string>

#include "abi/factory.h"
#include "abi/host.h"
#include "abi/session_state.h"

namespace cudaep::abi {

class Ep : public OrtEp {
 public:
  Ep(Factory& factory, std::shared_ptr<SessionState> state, const OrtLogger* logger);

  const std::shared_ptr<SessionState>& state() const { return state_; }

 private:
  const char* OnGetName() const { return factory_.ep_name().c_str(); }
  Status OnGetCapability(const OrtGraph* graph, OrtEpGraphSupportInfo* support);
  Status OnGetKernelRegistry(const OrtKernelRegistry** registry);
  Status OnCreateSyncStreamForDevice(const OrtMemoryDevice* device, OrtSyncStreamImpl** stream);
  Status OnIsConcurrentRunSupported(bool* supported);
  Status OnSync();

  Factory& factory_;
  std::shared_ptr<SessionState> state_;
  const OrtLogger* logger_;
};

}  // namespace cudaep::abi
