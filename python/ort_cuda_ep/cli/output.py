"""What the commands share: consoles, exit codes and failing with a message."""

import json
import sys
from typing import Any, NoReturn

import typer
from rich.console import Console

CHECK_FAILED = 1
BAD_INPUT = 2
PROVIDER_FAILED = 3

# A pipe has no width of its own; paths should not wrap there.
console = Console(width=None if sys.stdout.isatty() else 160)
errors = Console(stderr=True)


def fail(code: int, message: str, as_json: bool = False) -> NoReturn:
    """Ends the command with `code`; the message goes to standard error, or into a JSON object on standard output."""
    if as_json:
        print_json({"ok": False, "error": message})
    else:
        errors.print(f"[red]error:[/red] {message}", highlight=False, soft_wrap=True)
    raise typer.Exit(code)


def print_json(value: dict[str, Any]) -> None:
    """One JSON object on standard output."""
    typer.echo(json.dumps(value, indent=2))
