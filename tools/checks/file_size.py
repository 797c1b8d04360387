"""File length: more than 400 lines is long and gets a warning, more than 800 fails."""

import sys
from pathlib import Path

from tree import CPP_ENDINGS, ROOT, finish, repository_files

LONG_LINES = 400
MAX_LINES = 800
_ENDINGS = CPP_ENDINGS | {".py", ".sh", ".cmake", ".md"}


def check_files(files: list[Path]) -> tuple[list[str], list[str]]:
    """Warnings and failures for `files`."""
    warnings, failures = [], []
    for path in files:
        if path.suffix not in _ENDINGS:
            continue
        lines = len(path.read_text(errors="replace").splitlines())
        if lines > MAX_LINES:
            failures.append(f"{path}: {lines} lines, at most {MAX_LINES} are allowed; split it")
        elif lines > LONG_LINES:
            warnings.append(f"{path}: {lines} lines is long")
    return warnings, failures


if __name__ == "__main__":
    long_files, too_long = check_files(repository_files(ROOT))
    for warning in long_files:
        print(f"file_size: warning: {warning}", file=sys.stderr)
    finish("file_size", too_long)
