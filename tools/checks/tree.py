"""What the checks share: the files of the repository, and how a check reports and ends."""

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CPP_ENDINGS = {".h", ".cc", ".cu", ".cuh"}


def repository_files(root: Path) -> list[Path]:
    """All files that are tracked or could be added (not ignored), below `root`."""
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [path for name in sorted(set(listing.split("\0"))) if name and (path := root / name).is_file()]


def cpp_files(root: Path) -> list[Path]:
    """The C++ and CUDA files among them."""
    return [path for path in repository_files(root) if path.suffix in CPP_ENDINGS]


def finish(check: str, problems: Iterable[str], good: str = "ok") -> None:
    """Prints the problems, or `good`, and ends the process with 1 or 0."""
    found = list(problems)
    for problem in found:
        print(f"{check}: {problem}", file=sys.stderr)
    if not found:
        print(f"{check}: {good}")
    sys.exit(bool(found))
