"""All checks of the sources, each reported on its own; the exit code is 1 when any of them fails."""

import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(Path(__file__).resolve().parent / "checks"))

from tree import cpp_files, repository_files  # noqa: E402


def commands() -> list[tuple[str, list[str]]]:
    """Name and command line of each check."""
    checks = ROOT / "tools" / "checks"
    text = [str(p) for p in repository_files(ROOT) if p.suffix in {".h", ".cc", ".cu", ".cuh", ".py", ".md", ".sh"}]
    module = [sys.executable, "-m"]
    python = ["python", "tools", "tests", "bench", "examples", "setup.py"]
    return [
        ("clang-format", ["clang-format", "--dry-run", "-Werror", *map(str, cpp_files(ROOT))]),
        ("ruff check", [*module, "ruff", "check", "--quiet", *python]),
        ("ruff format", [*module, "ruff", "format", "--quiet", "--check", *python]),
        ("mypy", [*module, "mypy"]),
        ("codespell", [*module, "codespell_lib", *text]),
        *((name, [sys.executable, str(checks / f"{name}.py")]) for name in ("layers", "file_size", "leaks")),
    ]


def main() -> None:
    """Runs them all; a failing check's output is printed, the others say ok."""
    failed = []
    for name, command in commands():
        start = time.monotonic()
        result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        print(f"lint: {name}: {'FAILED' if result.returncode else 'ok'} ({time.monotonic() - start:.1f} s)")
        if result.returncode:
            failed.append(name)
            print(result.stdout + result.stderr, end="")
        elif "warning" in result.stderr:
            print(result.stderr, end="")
    if failed:
        sys.exit(f"lint: failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
