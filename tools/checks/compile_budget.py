"""What compiling may cost: bytes of device code of each file, kernels of each name, CPU seconds. See `--help`.

What is counted is the same on every machine, so each file and kernel has its own limit, a fifth above what it was when
the limits were written. Neighbours on a machine move seconds by a factor of two: they have one limit for any file and
one for all, three times what was measured. Seconds are those of tools/compile_time.sh, so configure with
-DCUDAEP_COMPILE_TIMES=ON; they are scaled by a file that never changes, compiled now by the same compiler, so a slower
machine has longer limits. What came out of a compiler cache took no time and is within every limit. `--write` makes new
limits of what is counted today, `--write-seconds` of the seconds of a build without a cache.
"""

import argparse
import re
import resource
import shutil
import subprocess
import tempfile
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

from tree import ROOT, finish

BUDGET = Path(__file__).with_suffix(".toml")
CALIBRATION = Path(__file__).with_name("calibration.cu")
LOG = "compile_times.log"
COUNT_MARGIN, SECONDS_MARGIN = 1.2, 3.0
# Files and kernel names below these share one limit.
NAMED_FILE_BYTES, NAMED_KERNELS = 50_000, 20


def source_of(object_file: str) -> str:
    """`src/kernels/CMakeFiles/cudaep_kernels.dir/reduce/sum.cu.o` is made from src/kernels/reduce/sum.cu."""
    name = re.sub(r"CMakeFiles/[^/]+\.dir/", "", object_file.removesuffix(".o"))
    return re.sub(r"^.*__/", "", name)


def compile_seconds(log: str) -> dict[str, float]:
    """CPU seconds of each source file's newest compilation, the longest where several targets have it."""
    newest: dict[str, float] = {}
    for line in log.splitlines():
        milliseconds, _, name = line.partition(" ")
        if milliseconds.isdigit() and name.endswith(".o"):
            newest[name] = int(milliseconds) / 1e3
    seconds: dict[str, float] = {}
    for name, took in newest.items():
        source = source_of(name)
        seconds[source] = max(took, seconds.get(source, 0.0))
    return seconds


def kernel_names(nm: str) -> Counter[str]:
    """How many kernels have each name, templates without their arguments, from what `nm` prints of a CUDA library.

    nvcc makes one launch stub a kernel, with a static handle in it and the kernel's mangled name in its own.
    """
    handles = re.findall(r" b \S*__device_stub_(_Z\S+)8__handle$", nm, re.MULTILINE)
    return Counter(_last_identifier(mangled) for mangled in handles)


def _last_identifier(mangled: str) -> str:
    """`_ZN6cudaep7kernelsL12RowMaxKernelIfLi2EE...` names RowMaxKernel."""
    rest, name = re.sub(r"^_ZN?", "", mangled), mangled
    while found := re.match(r"L?(\d+)", rest):
        end = found.end() + int(found[1])
        name, rest = rest[found.end() : end], rest[end:]
    return name


def device_code_bytes(sections: str) -> int:
    """Size of all device code, from what `size -A` prints of a CUDA library or object."""
    found = re.search(r"^\.nv_fatbin\s+(\d+)", sections, re.MULTILINE)
    return int(found[1]) if found else 0


def sections_of(binary: Path) -> str:
    """What `size -A` prints."""
    return subprocess.run(["size", "-A", binary], check=True, capture_output=True, text=True).stdout


def file_bytes(folder: Path, root: Path) -> dict[str, int]:
    """Bytes of device code of each kernel file below `root`, from the objects of a build."""
    sizes = {}
    for path in (folder / "src").rglob("*.cu.o"):
        source = source_of(str(path.relative_to(folder)))
        if (root / source).is_file():  # objects outlive files
            sizes[source] = device_code_bytes(sections_of(path))
    return sizes


def calibrate(compiler: list[str]) -> float:
    """CPU seconds that `compiler` takes for the calibration file."""
    with tempfile.TemporaryDirectory() as folder:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([*compiler, "-c", str(CALIBRATION), "-o", f"{folder}/calibration.o"], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def calibration_command(preset: str) -> list[str]:
    """The compiler of a preset's kernels with the flags that count."""
    if preset.startswith("cuda"):
        nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
        return [nvcc, "-std=c++20", "-O3", "-arch=sm_90"]
    return ["g++", "-std=c++20", "-O2", "-x", "c++"]


def check_seconds(seconds: dict[str, float], scale: float, budget: dict[str, Any]) -> list[str]:
    """Files that took longer than a file may, times `scale`; all of them; an empty log."""
    if not seconds:
        return ["the log names no compilation"]
    limit = budget["one_file"] * scale
    problems = [
        f"{name} took {took:.1f} s of CPU, the limit here is {limit:.1f} ({budget['one_file']:g} x {scale:.2f})"
        for name, took in sorted(seconds.items())
        if took > limit
    ]
    total, limit = sum(seconds.values()), budget["all_files"] * scale
    if total > limit:
        problems.append(f"all files took {total:.0f} s of CPU, the limit here is {limit:.0f}")
    return problems


def check_file_bytes(sizes: dict[str, int], budget: dict[str, Any]) -> list[str]:
    """Files with more device code than their limit, and a build without any."""
    if not sizes:
        return ["the build holds no object of a kernel file"]
    problems = []
    for name, size in sorted(sizes.items()):
        limit = budget["files"].get(name, budget["other_file_bytes"])
        if size > limit:
            problems.append(f"{name} has {size} bytes of device code, the limit is {limit}")
    return problems


def check_kernels(kernels: Counter[str], code_bytes: int, budget: dict[str, Any]) -> list[str]:
    """Kernel names with too many instances, too many kernels in all, too much device code."""
    if not kernels or not code_bytes:
        return ["the library holds no kernels"]
    problems = []
    for name, count in sorted(kernels.items()):
        limit = budget["kernels"].get(name, budget["other_kernels"])
        if count > limit:
            problems.append(f"{name} has {count} instances, the limit is {limit}")
    if kernels.total() > budget["all_kernels"]:
        problems.append(f"{kernels.total()} kernels, the limit is {budget['all_kernels']}")
    if code_bytes > budget["device_code_bytes"]:
        problems.append(f"{code_bytes} bytes of device code, the limit is {budget['device_code_bytes']}")
    return problems


def check_names(budget: dict[str, Any], root: Path) -> list[str]:
    """Files with a limit that are no more."""
    return [
        f"{BUDGET.name} names {name}, which does not exist" for name in budget["files"] if not (root / name).is_file()
    ]


def new_budget(old: dict[str, Any], kernels: Counter[str], code_bytes: int, sizes: dict[str, int]) -> dict[str, Any]:
    """`old` with limits for these figures of kernels and code."""
    large = sorted((name, size) for name, size in sizes.items() if size > NAMED_FILE_BYTES)
    many = sorted((name, count) for name, count in kernels.items() if count > NAMED_KERNELS)
    return old | {
        "all_kernels": int(kernels.total() * COUNT_MARGIN),
        "other_kernels": int(NAMED_KERNELS * COUNT_MARGIN),
        "device_code_bytes": int(code_bytes * COUNT_MARGIN),
        "other_file_bytes": int(NAMED_FILE_BYTES * COUNT_MARGIN),
        "files": {name: int(size * COUNT_MARGIN) for name, size in large},
        "kernels": {name: int(count * COUNT_MARGIN) for name, count in many},
    }


def new_seconds(old: dict[str, Any], seconds: dict[str, float], calibration: float) -> dict[str, Any]:
    """`old` with limits for these seconds of a build without a cache."""
    return old | {
        "calibration_seconds": round(calibration, 2),
        "one_file": round(max(seconds.values()) * SECONDS_MARGIN),
        "all_files": round(sum(seconds.values()) * SECONDS_MARGIN),
    }


def write(budgets: dict[str, Any]) -> None:
    """Writes all presets' limits."""
    lines = [
        "# What compiling may cost, by preset: written by `compile_budget.py PRESET --write`.",
        "# CPU seconds are without a compiler cache, on a machine that needs calibration_seconds for calibration.cu.",
        "# Raise a limit only together with the change that needs it, and say why in the commit.",
    ]
    for preset, budget in budgets.items():
        lines += ["", f"[{preset}]"]
        lines += [
            f'{key} = "{value}"' if isinstance(value, str) else f"{key} = {value}"
            for key, value in budget.items()
            if not isinstance(value, dict)
        ]
        for table in ("files", "kernels"):
            if table in budget:
                lines += ["", f"[{preset}.{table}]"]
                lines += [f'"{name}" = {limit}' for name, limit in budget[table].items()]
    BUDGET.write_text("\n".join(lines) + "\n")


def main() -> None:
    """Checks one build folder against its preset's budget, or makes it the budget."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("preset", choices=["cuda-ci", "sim"])
    parser.add_argument("folder", nargs="?", type=Path, help="of the build; build/PRESET by default")
    parser.add_argument("--write", action="store_true", help="make limits of what this build counts")
    parser.add_argument("--write-seconds", action="store_true", help="make limits of its seconds; no cache served it")
    arguments = parser.parse_args()
    budgets = tomllib.loads(BUDGET.read_text())
    budget = budgets[arguments.preset]
    folder = arguments.folder or ROOT / "build" / arguments.preset
    log, library = folder / LOG, folder / budget["library"]
    if not log.is_file() or not library.is_file():
        finish("compile_budget", [f"{folder} holds no finished build with -DCUDAEP_COMPILE_TIMES=ON"])
    seconds = compile_seconds(log.read_text())
    calibration = calibrate(calibration_command(arguments.preset))
    kernels: Counter[str] = Counter()
    code_bytes, sizes = 0, {}
    if arguments.preset == "cuda-ci":
        kernels = kernel_names(subprocess.run(["nm", library], check=True, capture_output=True, text=True).stdout)
        code_bytes, sizes = device_code_bytes(sections_of(library)), file_bytes(folder, ROOT)
    if arguments.write or arguments.write_seconds:
        if arguments.write and arguments.preset == "cuda-ci":
            budget = new_budget(budget, kernels, code_bytes, sizes)
        if arguments.write_seconds:
            budget = new_seconds(budget, seconds, calibration)
        budgets[arguments.preset] = budget
        write(budgets)
        return
    problems = check_seconds(seconds, calibration / budget["calibration_seconds"], budget)
    if arguments.preset == "cuda-ci":
        problems += check_names(budget, ROOT)
        problems += check_file_bytes(sizes, budget)
        problems += check_kernels(kernels, code_bytes, budget)
    slowest = sorted(seconds, key=lambda name: seconds[name], reverse=True)[:3]
    summary = (
        f"{len(seconds)} files, {sum(seconds.values()):.0f} s of CPU, {kernels.total()} kernels, {code_bytes} bytes; "
    )
    summary += "slowest: " + ", ".join(f"{name} {seconds[name]:.1f} s" for name in slowest)
    finish("compile_budget", problems, summary)


if __name__ == "__main__":
    main()
