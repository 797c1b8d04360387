"""All case tables: every module of tests/op/cases that has CASES."""

import functools
import importlib
import pkgutil

from .. import cases
from .case import BoundCase, expand


@functools.cache
def all_cases() -> dict[str, BoundCase]:
    """Every bound case by id, family by family."""
    found: dict[str, BoundCase] = {}
    for module in sorted(pkgutil.iter_modules(cases.__path__), key=lambda m: m.name):
        table = importlib.import_module(f"{cases.__name__}.{module.name}")
        found.update((bound.id, bound) for bound in expand(module.name, table.CASES))
    return found
