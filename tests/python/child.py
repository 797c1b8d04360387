"""Python programs in processes of their own, on the library under test: one process registers one library, once."""

import json
import subprocess
import sys
import textwrap
from typing import Any


def run(environment: dict[str, str], program: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", textwrap.dedent(program), *(str(argument) for argument in arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


def result(environment: dict[str, str], program: str, *arguments: object) -> Any:
    """What a program that ends well has printed last, as JSON."""
    ended = run(environment, program, *arguments)
    assert ended.returncode == 0, ended.stderr[-3000:]
    return json.loads(ended.stdout.splitlines()[-1])
