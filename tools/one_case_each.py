"""A pytest plugin for slow builds of the operators: of tests/op, one case of each operator and kind of type.

Of an operator's cases of one kind the largest of moderate size that has mode shifted runs; pytest's --modes says in
which of its modes.
"""

from collections.abc import Iterable
from math import prod
from typing import Any

import pytest

MODERATE_ELEMS = 1 << 16
_KINDS = {"float16": "half", "bfloat16": "half", "float32": "float32", "float64": "float64", "bool": "bool"}


def kind_of(dtype: str) -> str:
    """half, float32, float64, bool, integer, or the type itself."""
    return _KINDS.get(dtype, "integer" if dtype.startswith(("int", "uint")) else dtype)


def elems_of(shapes: Iterable[tuple[int, ...]]) -> int:
    """Elements of all inputs; 0 where that is above MODERATE_ELEMS, so that such a case is the last choice."""
    total = sum(prod(shape) for shape in shapes)
    return total if total <= MODERATE_ELEMS else 0


def choose(candidates: Iterable[tuple[tuple[str, str, str], int]]) -> list[int]:
    """Of (domain, operator and kind; elements), the positions of the largest of each group, in order."""
    best: dict[tuple[str, str, str], tuple[int, int]] = {}
    for position, (group, elems) in enumerate(candidates):
        if group not in best or elems > best[group][0]:
            best[group] = elems, position
    return sorted(position for _, position in best.values())


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves the chosen cases of each test; tests without any are reported as deselected."""
    found, candidates = [], []
    for item in items:
        every = _cases_of(item)
        for bound, modes in every:
            if "shifted" not in modes or "shifted" in bound.case.skip:
                continue
            shapes = [getattr(spec, "shape", ()) for spec in bound.case.inputs if spec is not None]
            dtype = bound.dtype or next(filter(None, map(bound.input_type, range(len(bound.case.inputs)))), "")
            found.append((every, (bound, modes)))
            candidates.append(((bound.case.domain, bound.case.op, kind_of(dtype)), elems_of(shapes)))
        every.clear()
    for position in choose(candidates):
        every, chosen = found[position]
        every.append(chosen)
    config.hook.pytest_deselected(items=[item for item in items if not _cases_of(item)])
    items[:] = [item for item in items if _cases_of(item)]


def _cases_of(item: pytest.Item) -> list[Any]:
    """The list that the test runs; empty for tests of something else."""
    parameters: dict[str, list[Any]] = getattr(getattr(item, "callspec", None), "params", {})
    return parameters.get("cases", [])
