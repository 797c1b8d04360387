"""Which modes each bound case runs in; docs/guides/testing-operators.md says what each mode shows."""

import math
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator

from .case import BoundCase
from .driver import SLICED_ELEMS, Driver, Row
from .dtypes import COMPLEX, bits_of
from .inputs import shape_of
from .schemas import FUSED_DOMAIN

LARGE_ELEMS = 1 << 15  # from which on a simulated device takes its time
MODES = ("user_stream", "graph", "shifted", "sliced", "in_place", "alias", "create", "session")


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


def wanted_modes(text: str) -> frozenset[str]:
    """The modes of a list like "graph,shifted", or all but those of "-session"; all of "". ValueError for others."""
    named = {name for name in text.removeprefix("-").split(",") if name}
    if not named <= {*MODES}:
        raise ValueError(f"no such modes: {', '.join(sorted(named - {*MODES}))}; there are {', '.join(MODES)}")
    return frozenset({*MODES} - named if text.startswith("-") or not named else named)


def chosen_modes(cases: Iterable[BoundCase], library: Driver | None) -> list[tuple[BoundCase, list[str]]]:
    """Every case with the modes it is tested in: those of `modes_of`, but for what another case shows as well.

    The host reads types, attributes and which inputs there are, so one case of each such form runs in a session. An
    output in its input's buffer depends on the elements' sizes, so it is tried with one type of each. Of a row's large
    cases one is replayed on a simulated device, where a small one is too.
    """
    table = list(cases)
    modes = _by_case(table, _modes_by_version(table, library))
    _keep_first(table, modes, "session", _seen_by_host)
    _keep_first(table, modes, "in_place", _element_sizes)
    if library is not None and library.backend == "simulated":
        _launch_large_once(table, modes, library)
    return [(bound, own) for bound, own in zip(table, modes, strict=True) if own]


def _by_case(table: list[BoundCase], pairs: Iterable[tuple[BoundCase, str]]) -> list[list[str]]:
    found: dict[str, list[str]] = {bound.id: [] for bound in table}
    for bound, mode in pairs:
        found[bound.id].append(mode)
    return [found[bound.id] for bound in table]


def _keep_first(
    table: list[BoundCase], modes: list[list[str]], mode: str, key: Callable[[BoundCase], Hashable]
) -> None:
    """Takes `mode` from cases whose `key` an earlier one has; refusals keep it."""
    seen: set[Hashable] = set()
    for bound, own in zip(table, modes, strict=True):
        # A case of an older version has no other mode to run in: see _modes_by_version.
        if mode not in own or bound.case.error is not None or mode in bound.case.skip or own == ["create", mode]:
            continue
        if key(bound) in seen:
            own.remove(mode)
        seen.add(key(bound))


def _launch_large_once(table: list[BoundCase], modes: list[list[str]], library: Driver) -> None:
    graphs = [
        (str(library.row(bound.case.domain, bound.case.op, bound.schema.since)), _largest(bound) >= LARGE_ELEMS, own)
        for bound, own in zip(table, modes, strict=True)
        if "graph" in own and "graph" not in bound.case.skip
    ]
    replayed = {row for row, large, _ in graphs if not large}
    seen = set()
    for row, large, own in graphs:
        if large and row in replayed and row in seen:
            own[own.index("graph")] = "user_stream"
        if large:
            seen.add(row)


def _seen_by_host(bound: BoundCase) -> Hashable:
    case = bound.case
    shapes = [None if spec is None else shape_of(spec) for spec in case.inputs]
    forms = ["absent" if s is None else "scalar" if s == () else "empty" if 0 in s else "" for s in shapes]
    attributes = {
        (name, type(value), isinstance(value, Collection) and not value) for name, value in case.attrs.items()
    }
    return (case.domain, case.op, bound.schema.since, tuple(map(bound.input_type, range(len(shapes)))),
            tuple(bound.output_types()), tuple(forms), frozenset(attributes), frozenset(case.constants),
            frozenset(case.options))  # fmt: skip


def _element_sizes(bound: BoundCase) -> Hashable:
    names = [bound.input_type(index) for index in range(len(bound.case.inputs))]
    return id(bound.case), bound.schema.since, tuple(map(bits_of, names))


def _modes_by_version(table: list[BoundCase], library: Driver | None) -> Iterator[tuple[BoundCase, str]]:
    """A case whose row serves several schema versions has all modes in the newest of them.

    In the others it is created and infers shapes, and one case of each such version runs.
    """
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
    """The host has no tensors of complex numbers, and does not know what regions make."""
    types = {*map(bound.input_type, range(len(bound.case.inputs)))}
    return [] if types & {*COMPLEX} or bound.case.domain == FUSED_DOMAIN else ["session"]
