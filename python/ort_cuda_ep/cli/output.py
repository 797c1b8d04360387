"""What the commands share: consoles, exit codes, provider options, and failing with a message."""

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

CHECK_FAILED = 1
BAD_INPUT = 2
PROVIDER_FAILED = 3

# A pipe has no width of its own; paths should not wrap there.
console = Console(width=None if sys.stdout.isatty() else 160)
errors = Console(stderr=True)

_HOST_PREFIX = re.compile(r"\[ONNXRuntimeError\] : \d+ : (\w+) : ")
# What the host's errors say when the model itself is at fault.
_MODEL_ERRORS = ("Load model from ", "INVALID_PROTOBUF", "INVALID_GRAPH", "NO_MODEL")


def fail(code: int, message: str, as_json: bool = False) -> NoReturn:
    """Ends the command with `code`; the message goes to standard error, or into a JSON object on standard output."""
    if as_json:
        print_json({"ok": False, "error": message})
    else:
        errors.print(f"[red]error:[/red] {escape(message)}", highlight=False, soft_wrap=True)
    raise typer.Exit(code)


def print_json(value: dict[str, Any]) -> None:
    """One JSON object on standard output."""
    typer.echo(json.dumps(value, indent=2))


def print_table(title: str, columns: Sequence[str], rows: Sequence[tuple[str, ...]], most: int | None = None) -> None:
    """Prints a table, unless it has no rows; with `most`, only that many, and a last line that counts the others."""
    if not rows:
        return
    shown = rows if most is None else rows[:most]
    table = Table(*(Column(column, overflow="fold") for column in columns), box=None)
    for row in shown:
        table.add_row(*(escape(cell) for cell in row))
    console.print(f"\n[bold]{escape(title)}[/bold]", highlight=False)
    console.print(table, highlight=False)
    if len(rows) > len(shown):
        console.print(f" and {len(rows) - len(shown)} more (--all)", highlight=False)


def parse_options(texts: list[str] | None, as_json: bool) -> dict[str, str]:
    """`key=value` texts as provider options; anything else ends the command."""
    options = {}
    for text in texts or []:
        key, equals, value = text.partition("=")
        if not key or not equals:
            fail(BAD_INPUT, f"a provider option is given as key=value, not {text!r}", as_json)
        options[key] = value
    return options


def error_text(error: Exception | str) -> str:
    """An error's text without the host's own places in front: "CODE: what is wrong"."""
    text = str(error).strip()
    prefixes = list(_HOST_PREFIX.finditer(text))
    if not prefixes:
        return text
    rest = text[prefixes[-1].end() :]
    # The provider's own messages begin with a code already.
    return rest if re.match(r"[A-Z_]+: ", rest) else f"{prefixes[-1][1]}: {rest}"


def exit_code_of(error: Exception | str) -> int:
    """BAD_INPUT where the host blames the model, or the provider an option's text; PROVIDER_FAILED otherwise."""
    text = str(error)
    bad_option = "INVALID_ARGUMENT" in text and ("provider option" in text or "session entry" in text)
    return BAD_INPUT if bad_option or any(part in text for part in _MODEL_ERRORS) else PROVIDER_FAILED


def check_model(path: Path, as_json: bool) -> None:
    """Ends the command unless `path` is a file."""
    if not path.is_file():
        fail(BAD_INPUT, f"{path} {'is not a file' if path.exists() else 'does not exist'}", as_json)
