"""clang-tidy by .clang-tidy over src/**/*.cc and the headers they include: `tidy.py [PART_OF_A_PATH...]`.

Works on the compile commands of build/sim, which must be configured; several files at once. Exits with 1 on a finding.
"""

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMMANDS = ROOT / "build" / "sim" / "compile_commands.json"
TIDY = ROOT / "build" / "tidy"
# Flags of gcc that clang does not know.
FOREIGN = {"-fno-gnu-unique"}
# That of requirements.txt, which does not look at what system headers declare: 40% less time than Debian 12's.
CLANG_TIDY = Path(sys.executable).with_name("clang-tidy")
# gcc's std::stable_sort takes memory in a way that is deprecated.
EXTRA = ["--extra-arg=-Wno-deprecated-declarations"]


def sources(commands: list[dict[str, str]], parts: list[str]) -> list[str]:
    """The files of src that are C++ by name, and hold one of `parts` where there are any; each once."""
    prefix = str(ROOT / "src") + "/"
    found = {entry["file"] for entry in commands if entry["file"].startswith(prefix) and entry["file"].endswith(".cc")}
    return sorted(name for name in found if not parts or any(part in name for part in parts))


def for_clang(commands: list[dict[str, str]]) -> list[dict[str, str]]:
    """The same commands without gcc's own flags."""
    return [
        {**entry, "command": " ".join(word for word in entry["command"].split(" ") if word not in FOREIGN)}
        for entry in commands
    ]


def check(name: str, commands: Path = TIDY) -> tuple[str, str]:
    """The file's name and what clang-tidy finds in it, which is nothing for a clean file."""
    command = [str(CLANG_TIDY), "--quiet", *EXTRA, "-p", str(commands), name]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return name, "" if result.returncode == 0 else result.stdout or result.stderr


def main() -> None:
    """Checks all files, the largest first; findings are printed once each."""
    if not CLANG_TIDY.exists():
        sys.exit("tidy: clang-tidy is not installed: make setup")
    if not COMMANDS.is_file():
        sys.exit("tidy: build/sim is not configured: cmake --preset sim")
    start = time.monotonic()
    commands = json.loads(COMMANDS.read_text())
    TIDY.mkdir(parents=True, exist_ok=True)
    (TIDY / "compile_commands.json").write_text(json.dumps(for_clang(commands)))
    names = sources(commands, sys.argv[1:])
    if not names:
        sys.exit("tidy: no files, which is a failure")
    names.sort(key=lambda name: Path(name).stat().st_size, reverse=True)
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        bad = [(name, text) for name, text in pool.map(check, names) if text]
    shown: set[str] = set()
    for _, text in bad:
        for block in text.replace("\n/", "\n\0/").split("\0"):
            if block not in shown:
                print(block, end="")
            shown.add(block)
    print(f"tidy: {len(names)} files, {len(bad)} with findings ({time.monotonic() - start:.0f} s)")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
