// How a kernel is launched; the part of device/launch.h that host-only code may include.
#pragma once

#include <cstddef>

namespace cudaep::device {

struct Extent {
  unsigned x = 1, y = 1, z = 1;
};

struct LaunchConfig {
  Extent grid = {};          // blocks
  Extent block = {};         // threads, at most 1024 together
  size_t shared_bytes = 0;   // dynamic shared memory; above 48 KB the limit is raised for the kernel
  Extent cluster = {};       // blocks of one cluster; {1,1,1} for none
  bool cooperative = false;  // the whole grid is resident and may synchronise
  // Programmatic dependent launch: the kernel may start while its predecessor drains. It calls GridDependencyWait()
  // before it touches memory that is not constant, and before it ends.
  bool programmatic = false;
};

inline constexpr size_t kMaxLaunchArgumentBytes = 4096;

}  // namespace cudaep::device
