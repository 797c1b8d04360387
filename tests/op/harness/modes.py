"""Which modes each bound case runs in; docs/guides/testing-operators.md says what each mode shows."""

import math
from collections.abc import Iterable, Iterator

from .case import BoundCase
from .driver import SLICED_ELEMS, Driver, Row
from .dtypes import COMPLEX
from .inputs import shape_of


def modes_of(bound: BoundCase, row: Row | None) -> list[str]:
    """All modes of a case. Refusals are the same in all, so two suffice for them."""
    if bound.case.error is not None:
        return ["user_stream", *_session(bound)]
    modes = ["graph", "shifted"]
    if bound.dtype in (*bound.case.dtypes[:1], "") and _largest(bound) > SLICED_ELEMS:
        modes.append("sliced")
    if row is not None and row.in_place:
        modes.append("in_place")
    if row is not None and row.aliases:
        modes.append("alias")
    return modes + _session(bound)


def chosen_modes(cases: Iterable[BoundCase], library: Driver | None) -> Iterator[tuple[BoundCase, str]]:
    """Every case with each mode it is tested in.

    A case whose row serves several schema versions has all modes in the newest of them; in the others it is created and
    infers shapes, and one case of each such version runs.
    """
    table = list(cases)
    rows = [library.row(b.case.domain, b.case.op, b.schema.since) if library else None for b in table]
    newest: dict[tuple[int, str, str], int] = {}
    for bound, row in zip(table, rows, strict=True):
        newest[_group(bound, row)] = max(newest.get(_group(bound, row), 0), bound.schema.since)
    complete = [
        bound.case.error is not None or row is None or newest[_group(bound, row)] == bound.schema.since
        for bound, row in zip(table, rows, strict=True)
    ]
    ran = {
        (str(row), bound.schema.since)
        for bound, row, full in zip(table, rows, complete, strict=True)
        if full and bound.case.error is None
    }
    for bound, row, full in zip(table, rows, complete, strict=True):
        if full:
            yield from ((bound, mode) for mode in modes_of(bound, row))
            continue
        yield bound, "create"
        modes = [mode for mode in (*_session(bound), "graph") if mode not in bound.case.skip]
        if modes and (str(row), bound.schema.since) not in ran:
            ran.add((str(row), bound.schema.since))
            yield bound, modes[0]


def _group(bound: BoundCase, row: Row | None) -> tuple[int, str, str]:
    return id(bound.case), bound.dtype, str(row)


def _largest(bound: BoundCase) -> int:
    """Elements of its largest input."""
    return max((math.prod(shape_of(spec)) for spec in bound.case.inputs if spec is not None), default=0)


def _session(bound: BoundCase) -> list[str]:
    """The host has no tensors of complex numbers."""
    types = {*map(bound.input_type, range(len(bound.case.inputs)))}
    return [] if types & {*COMPLEX} else ["session"]
