"""What compiling may cost: CPU seconds of each file, kernels of each name, bytes of device code. See `--help`.

Seconds are those of tools/compile_time.sh, so configure with -DCUDAEP_COMPILE_TIMES=ON; they are scaled by a file that
never changes, compiled now by the same compiler, so a slower machine has longer limits. What came out of a compiler
cache took no time and is within every limit. `--write` makes new limits of today's figures: a fifth more for what is
counted, twice the seconds of a file and half as much again for all files, as neighbours on a machine move the seconds.
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
COUNT_MARGIN = 1.2
FILE_MARGIN, ALL_FILES_MARGIN = 2.0, 1.5
# Files and kernel names below these share one limit.
NAMED_FILE_SECONDS, NAMED_KERNELS = 5.0, 20


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
    """Size of all device code, from what `size -A` prints of a CUDA library."""
    found = re.search(r"^\.nv_fatbin\s+(\d+)", sections, re.MULTILINE)
    return int(found[1]) if found else 0


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
    """Files that took longer than their limit times `scale`, and an empty log."""
    if not seconds:
        return ["the log names no compilation"]
    problems = []
    for name, took in sorted(seconds.items()):
        limit = budget["files"].get(name, budget["other_files"])
        if took > limit * scale:
            problems.append(
                f"{name} took {took:.1f} s of CPU, the limit here is {limit * scale:.1f} ({limit:g} x {scale:.2f})"
            )
    total, limit = sum(seconds.values()), budget["all_files"] * scale
    if total > limit:
        problems.append(f"all files took {total:.0f} s of CPU, the limit here is {limit:.0f}")
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


def new_budget(
    library: str, seconds: dict[str, float], calibration: float, kernels: Counter[str], code_bytes: int
) -> dict[str, Any]:
    """Limits for these figures with their margins."""
    budget: dict[str, Any] = {"library": library, "calibration_seconds": round(calibration, 2)}
    budget["all_files"] = round(sum(seconds.values()) * ALL_FILES_MARGIN)
    budget["other_files"] = NAMED_FILE_SECONDS * FILE_MARGIN
    if kernels:
        budget |= {
            "all_kernels": int(kernels.total() * COUNT_MARGIN),
            "other_kernels": int(NAMED_KERNELS * COUNT_MARGIN),
            "device_code_bytes": int(code_bytes * COUNT_MARGIN),
        }
    named = sorted((name, took) for name, took in seconds.items() if took > NAMED_FILE_SECONDS)
    budget["files"] = {name: round(took * FILE_MARGIN, 1) for name, took in named}
    if kernels:
        large = sorted((name, count) for name, count in kernels.items() if count > NAMED_KERNELS)
        budget["kernels"] = {name: int(count * COUNT_MARGIN) for name, count in large}
    return budget


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
    parser.add_argument("preset", choices=["cuda", "sim"])
    parser.add_argument("folder", nargs="?", type=Path, help="of the build; build/PRESET by default")
    parser.add_argument("--write", action="store_true", help="make limits of this build's figures")
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
    code_bytes = 0
    if arguments.preset == "cuda":
        kernels = kernel_names(subprocess.run(["nm", library], check=True, capture_output=True, text=True).stdout)
        sections = subprocess.run(["size", "-A", library], check=True, capture_output=True, text=True).stdout
        code_bytes = device_code_bytes(sections)
    if arguments.write:
        budgets[arguments.preset] = new_budget(budget["library"], seconds, calibration, kernels, code_bytes)
        write(budgets)
        return
    problems = check_seconds(seconds, calibration / budget["calibration_seconds"], budget)
    problems += check_names(budget, ROOT)
    if arguments.preset == "cuda":
        problems += check_kernels(kernels, code_bytes, budget)
    slowest = sorted(seconds, key=lambda name: seconds[name], reverse=True)[:3]
    summary = (
        f"{len(seconds)} files, {sum(seconds.values()):.0f} s of CPU, {kernels.total()} kernels, {code_bytes} bytes; "
    )
    summary += "slowest: " + ", ".join(f"{name} {seconds[name]:.1f} s" for name in slowest)
    finish("compile_budget", problems, summary)


if __name__ == "__main__":
    main()
