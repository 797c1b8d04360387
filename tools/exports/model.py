"""What an entry of the list of models says."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

BOTH = ("torchscript", "dynamo")


@dataclass(frozen=True)
class Export:
    """A module and the inputs of each Run: flat names over `runs[i]`, a tuple that may hold lists of tensors.

    `axes` names the open dimensions of inputs. The module is exported with the first run's inputs.
    """

    module: Any
    names: list[str]
    runs: list[tuple[Any, ...]]
    outputs: list[str]
    axes: dict[str, dict[int, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Entry:
    """A model of the list. `build` gets the exporter's name."""

    name: str
    build: Callable[[str], Export]
    exporters: tuple[str, ...]


def entries(table: dict[str, Any]) -> list[Entry]:
    """The entries of a table whose values are a builder, or a builder and the exporters that can do it."""
    made = []
    for name, value in table.items():
        build, exporters = value if isinstance(value, tuple) else (value, BOTH)
        made.append(Entry(name, build, exporters))
    return made
