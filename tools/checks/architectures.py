"""Three kernel files compile for the oldest and the newest architecture of the release preset. `architectures.py`

What an architecture lacks (instructions, shared memory, registers) is known to ptxas alone, and the everyday build asks
it for one architecture. The whole release list is `make release-check`.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tree import ROOT, finish

COMMANDS = ROOT / "build" / "cuda-ci" / "compile_commands.json"
# Asynchronous copies and barriers, warp reductions in every 16-bit type, packs of elements.
FILES = ("softmax/softmax_rows.cu", "norm/layer_norm_uniform.cu", "elementwise/clip.cu")


def ends_of_release(presets: str) -> tuple[str, str]:
    """The oldest and the newest architecture of cuda-release, as numbers: 75 and 120."""
    release = next(p for p in json.loads(presets)["configurePresets"] if p["name"] == "cuda-release")
    words = release["cacheVariables"]["CMAKE_CUDA_ARCHITECTURES"].split(";")
    numbers = sorted(int(match[0]) for word in words if (match := re.match(r"\d+", word)))
    return str(numbers[0]), str(numbers[-1])


def command_for(command: str, architecture: str, output: str) -> str:
    """A compile command of one architecture, for another one and into another file."""
    plain = re.sub(r"^.*?(\S*nvcc\b)", r"\1", command)  # without launchers
    code = f'"--generate-code=arch=compute_{architecture},code=[sm_{architecture}]"'
    other, count = re.subn(r'"?--generate-code=arch=\S+', code, plain)
    if count == 0:
        raise ValueError(f"no architecture in: {command}")
    return re.sub(r" -o \S+", f" -o {output}", other)


def compile_one(command: str, folder: str) -> str:
    """What the compiler says against it; empty when it compiles."""
    result = subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True, check=False)
    return "" if result.returncode == 0 else result.stdout + result.stderr or "the compiler failed"


def check(entries: list[dict[str, str]], architectures: tuple[str, str]) -> list[str]:
    """Files that do not compile, and files of FILES that nothing compiles."""
    names = {name: entry for name in FILES for entry in entries if entry["file"].endswith("/" + name)}
    problems = [f"no compile command makes {name}" for name in FILES if name not in names]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        jobs = [(name, arch, entry) for name, entry in names.items() for arch in architectures]
        results = pool.map(
            lambda job: compile_one(
                command_for(job[2]["command"], job[1], f"{folder}/{Path(job[0]).stem}.{job[1]}.o"), job[2]["directory"]
            ),
            jobs,
        )
        problems += [f"{name} for {arch}: {text}" for (name, arch, _), text in zip(jobs, results, strict=True) if text]
    return problems


def main() -> None:
    """Checks the commands of build/cuda-ci."""
    if not COMMANDS.is_file():
        sys.exit("architectures: build/cuda-ci is not configured")
    ends = ends_of_release((ROOT / "CMakePresets.json").read_text())
    finish(
        "architectures", check(json.loads(COMMANDS.read_text()), ends), f"{len(FILES)} files for {' and '.join(ends)}"
    )


if __name__ == "__main__":
    main()
