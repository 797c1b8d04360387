// device.h: devices and versions.
#include <cstdio>
#include <mutex>

#include "device/architectures.h"
#include "device/device_info.h"
#include "device/sim/sim.h"
#include "device/sim/simulator.h"

namespace cudaep::device {
namespace {

constexpr int kCudaVersion = 13000;

DeviceInfo MakeInfo(int ordinal, size_t total_bytes) {
  DeviceInfo info;
  info.ordinal = ordinal;
  info.name = "Simulated CUDA device";
  char text[64];
  std::snprintf(text, sizeof(text), "00000000:%02x:00.0", static_cast<unsigned>(ordinal + 1));
  info.pci_bus_id = text;
  std::snprintf(text, sizeof(text), "GPU-00000000-0000-0000-0000-%012x", static_cast<unsigned>(ordinal + 1));
  info.uuid = text;
  info.major = 9;
  info.minor = 0;
  info.multiprocessors = 4;
  info.max_threads_per_multiprocessor = 2048;
  info.total_bytes = total_bytes;
  info.l2_bytes = size_t{50} << 20;
  info.shared_bytes_per_block = size_t{227} << 10;
  info.shared_bytes_per_multiprocessor = size_t{228} << 10;
  info.simulated = true;
  return info;
}

Status UnknownDevice(int ordinal, size_t count) {
  return InvalidArgument("no simulated device ", ordinal, "; there are ", count);
}

}  // namespace

Status GetDeviceCount(int* count) {
  sim::Simulator& simulator = sim::Simulator::Get();
  sim::Lock lock = simulator.Acquire();
  *count = static_cast<int>(simulator.devices.size());
  return Status::Ok();
}

Result<const DeviceInfo*> GetDeviceInfo(int ordinal) {
  sim::Simulator& simulator = sim::Simulator::Get();
  sim::Lock lock = simulator.Acquire();
  if (ordinal < 0 || static_cast<size_t>(ordinal) >= simulator.devices.size()) {
    return UnknownDevice(ordinal, simulator.devices.size());
  }
  // References stay valid for the life of the process, also when a test configures another capacity: never freed.
  static auto* const infos = new std::vector<std::unique_ptr<DeviceInfo>>;
  for (const auto& info : *infos) {
    if (info->ordinal == ordinal && info->total_bytes == simulator.config.memory_bytes) {
      return static_cast<const DeviceInfo*>(info.get());
    }
  }
  infos->push_back(std::make_unique<DeviceInfo>(MakeInfo(ordinal, simulator.config.memory_bytes)));
  return static_cast<const DeviceInfo*>(infos->back().get());
}

Status CheckCode(const DeviceInfo& info) {
  const sim::Configuration configuration = sim::CurrentConfiguration();
  if (info.ordinal != configuration.device_without_code) return Status::Ok();
  return NotSupported("this build holds no code for ", info.name, " ", info.ordinal,
                      ", as CUDAEP_SIM_WITHOUT_CODE says");
}

Status GetDevice(int* ordinal) {
  sim::Simulator& simulator = sim::Simulator::Get();
  sim::Lock lock = simulator.Acquire();
  return simulator.CurrentDevice(ordinal);
}

Status SetDevice(int ordinal) {
  sim::Simulator& simulator = sim::Simulator::Get();
  sim::Lock lock = simulator.Acquire();
  if (ordinal < 0 || static_cast<size_t>(ordinal) >= simulator.devices.size()) {
    return UnknownDevice(ordinal, simulator.devices.size());
  }
  sim::CurrentThread().ordinal = ordinal;
  return Status::Ok();
}

int DriverVersion() { return kCudaVersion; }
int RuntimeVersion() { return kCudaVersion; }
std::string DriverProblem() { return {}; }
const char* BackendName() { return "simulated"; }

Status DeviceSynchronize() {
  sim::Simulator& simulator = sim::Simulator::Get();
  sim::Lock lock = simulator.Acquire();
  int ordinal = 0;
  CUDAEP_RETURN_IF_ERROR(simulator.CurrentDevice(&ordinal));
  CUDAEP_RETURN_IF_ERROR(simulator.Enter(sim::CallKind::kSynchronize, ordinal));
  CUDAEP_RETURN_IF_ERROR(simulator.CheckDeviceWait(ordinal));
  sim::Device& device = simulator.devices[static_cast<size_t>(ordinal)];
  ++device.counters.device_syncs;
  CUDAEP_RETURN_IF_ERROR(simulator.WaitForDevice(lock, ordinal));
  simulator.ReleaseUnusedPoolMemory(ordinal);
  return simulator.CheckAllRedZones(ordinal);
}

Status CanAccessPeer(bool* can, int ordinal, int peer_ordinal) {
  sim::Simulator& simulator = sim::Simulator::Get();
  sim::Lock lock = simulator.Acquire();
  const auto count = static_cast<int>(simulator.devices.size());
  for (int device : {ordinal, peer_ordinal}) {
    if (device < 0 || device >= count) return UnknownDevice(device, simulator.devices.size());
  }
  *can = ordinal != peer_ordinal && simulator.config.peer_access;
  return Status::Ok();
}

Status EnablePeerAccess(int peer_ordinal) {
  int ordinal = 0;
  bool can = false;
  CUDAEP_RETURN_IF_ERROR(GetDevice(&ordinal));
  CUDAEP_RETURN_IF_ERROR(CanAccessPeer(&can, ordinal, peer_ordinal));
  sim::Simulator& simulator = sim::Simulator::Get();
  sim::Lock lock = simulator.Acquire();
  CUDAEP_RETURN_IF_ERROR(simulator.Enter(sim::CallKind::kOther, ordinal));
  if (!can) return NotSupported("device ", ordinal, " cannot access the memory of device ", peer_ordinal);
  simulator.devices[static_cast<size_t>(ordinal)].peers.insert(peer_ordinal);
  return Status::Ok();
}

}  // namespace cudaep::device
