// device.h over the CUDA runtime: devices and versions.
#include <array>
#include <cstdio>
#include <fstream>
#include <memory>
#include <mutex>

#include "core/strings.h"
#include "device/architectures.h"
#include "device/cuda/errors.h"
#include "device/device.h"
#include "device/device_info.h"

namespace cudaep::device {
namespace {

constexpr int kMaxDevices = 64;

// The 16-bit PCI device id, which the runtime does not tell; 0 when the system does not either.
uint32_t ReadPciDeviceId(std::string bus_id) {
  // The runtime writes an eight-digit domain in capitals, sysfs four digits in small letters.
  if (bus_id.size() > 12) bus_id = bus_id.substr(bus_id.size() - 12);
  for (char& letter : bus_id) {
    if (letter >= 'A' && letter <= 'F') letter = static_cast<char>(letter - 'A' + 'a');
  }
  std::ifstream file("/sys/bus/pci/devices/" + bus_id + "/device");
  uint32_t id = 0;
  file >> std::hex >> id;
  return file ? id : 0;
}

std::string UuidText(const cudaUUID_t& uuid) {
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    char digits[4];
    std::snprintf(digits, sizeof(digits), "%02x", static_cast<unsigned char>(uuid.bytes[i]));
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += digits;
  }
  return text;
}

Status ReadInfo(int ordinal, DeviceInfo* info) {
  cudaDeviceProp properties{};
  CUDAEP_CUDA_RETURN_IF_ERROR(cudaGetDeviceProperties(&properties, ordinal));
  char bus_id[32] = {};
  CUDAEP_CUDA_RETURN_IF_ERROR(cudaDeviceGetPCIBusId(bus_id, sizeof(bus_id), ordinal));
  info->ordinal = ordinal;
  info->name = properties.name;
  info->pci_bus_id = bus_id;
  info->uuid = UuidText(properties.uuid);
  info->pci_device_id = ReadPciDeviceId(bus_id);
  info->major = properties.major;
  info->minor = properties.minor;
  info->multiprocessors = properties.multiProcessorCount;
  info->max_threads_per_multiprocessor = properties.maxThreadsPerMultiProcessor;
  info->total_bytes = properties.totalGlobalMem;
  info->l2_bytes = static_cast<size_t>(properties.l2CacheSize);
  info->shared_bytes_per_block = properties.sharedMemPerBlockOptin;
  info->shared_bytes_per_multiprocessor = properties.sharedMemPerMultiprocessor;
  return Status::Ok();
}

}  // namespace

Status GetDeviceCount(int* count) {
  *count = 0;
  const cudaError_t error = cudaGetDeviceCount(count);
  if (error == cudaSuccess) return Status::Ok();
  *count = 0;
  if (!cuda::MeansNoDevice(error)) return cuda::ErrorStatus(error, "cudaGetDeviceCount");
  static_cast<void>(cudaGetLastError());
  return Status::Ok();
}

Result<const DeviceInfo*> GetDeviceInfo(int ordinal) {
  static constinit std::mutex mutex;
  static auto* const infos = new std::array<std::unique_ptr<DeviceInfo>, kMaxDevices>;  // never freed: references stay
  if (ordinal < 0 || ordinal >= kMaxDevices) return InvalidArgument("no CUDA device ", ordinal);
  std::lock_guard lock(mutex);
  std::unique_ptr<DeviceInfo>& info = (*infos)[static_cast<size_t>(ordinal)];
  if (info == nullptr) {
    auto made = std::make_unique<DeviceInfo>();
    CUDAEP_RETURN_IF_ERROR(ReadInfo(ordinal, made.get()));
    info = std::move(made);
  }
  return static_cast<const DeviceInfo*>(info.get());
}

Status CheckCode(const DeviceInfo& info) {
  if (RunsOn(CUDAEP_ARCHITECTURES, info.major, info.minor)) return Status::Ok();
  return NotSupported("this build holds no code for ", info.name, " of compute capability ", info.major, ".",
                      info.minor,
                      ", only for the architectures " CUDAEP_ARCHITECTURES
                      " (PTX below 9.0 does not count from 9.0 on): build with CMAKE_CUDA_ARCHITECTURES=",
                      info.major, info.minor, "-real, or hide the GPU with CUDA_VISIBLE_DEVICES");
}

Status GetDevice(int* ordinal) { return CUDAEP_CUDA_STATUS(cudaGetDevice(ordinal)); }
Status SetDevice(int ordinal) { return CUDAEP_CUDA_STATUS(cudaSetDevice(ordinal)); }

int DriverVersion() {
  int version = 0;
  if (cudaDriverGetVersion(&version) == cudaSuccess) return version;
  static_cast<void>(cudaGetLastError());
  return 0;
}

int RuntimeVersion() { return CUDART_VERSION; }

std::string DriverProblem() {
  const int driver = DriverVersion();
  // CUDA 13 runs on its own minimum driver and newer ones, not on drivers of the 12 series.
  if (driver == 0 || driver / 1000 >= CUDART_VERSION / 1000) return {};
  return StrCat("the NVIDIA driver supports CUDA ", driver / 1000, ".", driver % 1000 / 10,
                " at most and this build needs CUDA ", CUDART_VERSION / 1000, ": install driver 580 or newer");
}

const char* BackendName() { return "cuda"; }

Status DeviceSynchronize() { return CUDAEP_CUDA_STATUS(cudaDeviceSynchronize()); }

Status CanAccessPeer(bool* can, int ordinal, int peer_ordinal) {
  int value = 0;
  CUDAEP_CUDA_RETURN_IF_ERROR(cudaDeviceCanAccessPeer(&value, ordinal, peer_ordinal));
  *can = value != 0;
  return Status::Ok();
}

Status EnablePeerAccess(int peer_ordinal) {
  const cudaError_t error = cudaDeviceEnablePeerAccess(peer_ordinal, 0);
  if (error != cudaErrorPeerAccessAlreadyEnabled) return cuda::ToStatus(error, "cudaDeviceEnablePeerAccess");
  static_cast<void>(cudaGetLastError());
  return Status::Ok();
}

}  // namespace cudaep::device
