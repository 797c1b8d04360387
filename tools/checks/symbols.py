"""A built library: what it needs at load time, what it exports, and how large it is. `symbols.py LIBRARY [MAX_MIB]`."""

import re
import subprocess
import sys
from pathlib import Path

from tree import finish

EXPORTS = {"CreateEpFactories", "ReleaseEpFactory"}
NEEDED = re.compile(r"^(lib(c|m|stdc\+\+|gcc_s|dl|pthread|rt)\.so\.\d+|ld-linux.*\.so\.\d+)$")
MAX_MIB = 64.0


def needed_libraries(library: Path) -> list[str]:
    """The NEEDED entries of the dynamic section."""
    text = subprocess.run(["readelf", "-dW", str(library)], check=True, capture_output=True, text=True).stdout
    return re.findall(r"\(NEEDED\).*\[(.+)\]", text)


def exported_symbols(library: Path) -> list[str]:
    """The defined dynamic symbols, without their versions."""
    command = ["nm", "-D", "--defined-only", "--format=posix", str(library)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    # An `A` is the name of a symbol version, not a symbol.
    rows = [line.split() for line in text.splitlines()]
    return [row[0].split("@")[0] for row in rows if len(row) > 1 and row[1] != "A"]


def check(library: Path, max_mib: float = MAX_MIB) -> list[str]:
    """Everything that is wrong with `library`."""
    if not library.is_file():
        return [f"{library} does not exist"]
    problems = [f"needs {name} at load time" for name in needed_libraries(library) if not NEEDED.match(name)]
    exports = set(exported_symbols(library))
    problems += [f"does not export {name}" for name in sorted(EXPORTS - exports)]
    problems += [f"exports {name}" for name in sorted(exports - EXPORTS)[:20]]
    size_mib = library.stat().st_size / 2**20
    if size_mib > max_mib:
        problems.append(f"is {size_mib:.1f} MiB, the limit is {max_mib:g}")
    return [f"{library.name} {problem}" for problem in problems]


if __name__ == "__main__":
    path = Path(sys.argv[1])
    finish("symbols", check(path, float(sys.argv[2]) if len(sys.argv) > 2 else MAX_MIB))
