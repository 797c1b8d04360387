"""Include directions of src/: layers point downwards only, and foreign headers stay in their one place."""

import re
import sys
from pathlib import Path

from tree import CPP_ENDINGS, ROOT, finish

# A layer may include itself and what is listed here.
BELOW = {
    "core": set(),
    "device": {"core"},
    "kernels": {"core", "device"},
    "lib": {"core", "device"},
    "memory": {"core", "device"},
    "runtime": {"core", "device", "lib", "memory"},
    "ops": {"core", "device", "kernels", "lib", "memory", "runtime"},
    "graph": {"core", "device", "kernels", "lib", "memory", "runtime", "ops"},
    "abi": {"core", "device", "kernels", "lib", "memory", "runtime", "ops", "graph"},
}
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)
_HOST = re.compile(r"(^|/)onnxruntime_\w+\.h$")
_CUDA = re.compile(r"^(cuda|driver_types|vector_types|device_launch_parameters|cooperative_groups|cub/|thrust/)")
# Number formats that a device compiler alone brings; core wraps them once.
_FORMATS = {Path("core/float16.h"): {"cuda_bf16.h", "cuda_fp16.h", "cuda_fp8.h"}}
_VENDOR = re.compile(
    r"^(cublas|cudnn|cufft|curand|cusolver|cusparse|nvrtc|nvJitLink|nccl|cupti|nvtx3/|cutlass/|cute/)", re.I
)


def check_file(path: Path, source: Path) -> list[str]:
    """Violations in one file; `source` is the folder that holds the layers."""
    place = path.relative_to(source)
    layer = place.parts[0]
    if layer not in BELOW:
        return [f"{place}: no layer is called {layer}"]
    problems = []
    text = path.read_text()
    for match in _INCLUDE.finditer(text):
        reason = _objection(match[1] == '"', match[2], layer, place, path, source)
        if reason:
            problems.append(f"{place}:{text.count(chr(10), 0, match.start(2)) + 1}: {match[2]}: {reason}")
    return problems


def _objection(quoted: bool, header: str, layer: str, place: Path, path: Path, source: Path) -> str | None:
    if _HOST.search(header):
        return None if layer == "abi" else "only abi may include the host's headers"
    if _VENDOR.match(header):
        return None if layer == "lib" and _is_cuda_part(place) else "only lib's CUDA parts may include vendor headers"
    if _CUDA.match(header) and not (source / header).exists():
        allowed = (layer in ("device", "lib") and _is_cuda_part(place)) or header in _FORMATS.get(place, ())
        return None if allowed else "only the CUDA parts of device and lib may include CUDA headers"
    if not quoted:
        return None
    if ".." in Path(header).parts:
        return "write the path from src/"
    target = Path(header).parts[0] if (source / header).exists() or len(Path(header).parts) > 1 else layer
    if target not in BELOW:
        return None if (path.parent / header).exists() else "not found below src/"
    return None if target == layer or target in BELOW[layer] else f"{layer} may not include {target}"


def _is_cuda_part(place: Path) -> bool:
    return "cuda" in place.parts[:-1] or "cuda" in place.stem.split("_")


def check_tree(source: Path) -> list[str]:
    """Violations in all files below `source`."""
    files = [path for path in sorted(source.rglob("*")) if path.suffix in CPP_ENDINGS]
    return [problem for path in files for problem in check_file(path, source)] if files else [f"no files in {source}"]


if __name__ == "__main__":
    finish("layers", check_tree(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "src"))
