"""Every registered row against the operators' schemas, and against the case tables."""

import functools
import itertools

import pytest

from .harness import driver, schemas
from .harness.case import BoundCase
from .harness.check import shares
from .harness.driver import Row
from .harness.families import all_cases
from .harness.modes import chosen_modes


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "row" not in metafunc.fixturenames:
        return
    try:
        rows = driver.load().rows
    except FileNotFoundError as error:
        pytest.fail(str(error))
    metafunc.parametrize("row", rows, ids=str)


def _cases_of(row: Row) -> list[BoundCase]:
    return [
        bound
        for bound in all_cases().values()
        if (bound.case.domain, bound.case.op) == (row.domain, row.op) and row.since <= bound.schema.since <= row.until
    ]


@functools.cache
def _modes() -> dict[str, set[str]]:
    """The modes that each bound case is tested in, by its id."""
    return {
        bound.id: {mode for mode in modes if mode not in bound.case.skip}
        for bound, modes in chosen_modes(all_cases().values(), driver.load())
    }


def _of_models(row: Row) -> bool:
    """Control flow: the host runs it, so session tests of whole models cover it."""
    return row.kind != "operator"


def _versions(row: Row) -> list[int]:
    return [version for version in schemas.versions(row.domain, row.op) if row.since <= version <= row.until]


def test_the_registry_has_rows() -> None:
    assert driver.load().rows


def test_rows_do_not_overlap() -> None:
    clashes = [
        f"{a} and {b}"
        for a, b in itertools.combinations(driver.load().rows, 2)
        if (a.domain, a.op) == (b.domain, b.op) and a.since <= b.until and b.since <= a.until
    ]
    assert not clashes


def test_versions_are_real(row: Row) -> None:
    known = schemas.versions(row.domain, row.op)
    assert known, f"neither onnx nor the host has a schema of {row}"
    if row.domain == "com.ms.internal.nhwc":  # the host may come to know those that it lacks
        known = schemas.versions("", row.op)
    assert row.since in known, f"{row.op} has versions {known}, none is {row.since}"
    assert row.until in known, f"{row.op} has versions {known}, none is {row.until}"


def test_constraints_exist_in_every_version(row: Row) -> None:
    for version in _versions(row):
        known = schemas.schema(row.domain, row.op, version).types
        unknown = sorted(set(row.types) - set(known))
        assert not unknown, f"version {version} has constraints {sorted(known)}, not {unknown}"


# Names that the schemas of older hosts lack: a row with them would match nothing there. The operators refuse other
# types themselves, and have cases for it.
_YOUNG_CONSTRAINTS = {"GroupQueryAttention": {"T_CACHE", "T_KV_SCALE"}, "QMoE": {"T4"}}


def test_constraints_are_complete(row: Row) -> None:
    """A constraint that a row leaves out lets any type through, strings too."""
    young = _YOUNG_CONSTRAINTS.get(row.op, set())
    for version in _versions(row):
        missing = sorted(set(schemas.schema(row.domain, row.op, version).types) - set(row.types) - young)
        assert not missing, f"constraints {missing} of version {version} have no types"


def test_types_are_allowed(row: Row) -> None:
    """Not by each version of the row, since the host checks that, but by some version: else they are a mistake."""
    known = [schemas.schema(row.domain, row.op, version) for version in schemas.versions(row.domain, row.op)]
    for name, types in row.types.items():
        assert types, f"{name} has no types"
        extra = sorted(types.difference(*(schema.types.get(name, frozenset()) for schema in known)))
        assert not extra, f"no version allows {extra} for {name}"


def test_the_newest_version_is_covered() -> None:
    """A model of the newest opset must find each operator that an older one finds."""
    newest: dict[tuple[str, str], int] = {}
    for row in driver.load().rows:
        newest[row.domain, row.op] = max(row.until, newest.get((row.domain, row.op), 0))
    behind = [
        f"{op}: rows end at {until}, its newest version is {schemas.versions(domain, op)[-1]}"
        for (domain, op), until in newest.items()
        if schemas.versions(domain, op) and until < schemas.versions(domain, op)[-1]
    ]
    assert not behind


def test_every_row_has_cases() -> None:
    missing = [str(row) for row in driver.load().rows if not _cases_of(row) and not _of_models(row)]
    assert not missing, f"no case table has these rows: {missing}"


def test_every_version_and_type_has_a_case(row: Row) -> None:
    if _of_models(row):
        pytest.skip("control flow: tested in whole models")
    ran = [bound for bound in _cases_of(row) if bound.case.error is None and _modes()[bound.id] - {"create"}]
    versions = sorted(set(_versions(row)) - {bound.schema.since for bound in ran})
    assert not versions, f"no case runs version {versions}"
    seen: dict[str, set[str]] = {}
    for bound in ran:
        if not _modes()[bound.id] & {"graph", "shifted"}:
            continue  # one mode of one case, for the version's sake
        for index, dtype in enumerate(bound.output_types()):
            formal = bound.schema.output(index)
            if formal is not None:
                seen.setdefault(formal.type, set()).add(dtype)
        for index in range(len(bound.case.inputs)):
            formal = bound.schema.input(index)
            if formal is not None:
                seen.setdefault(formal.type, set()).add(bound.input_type(index))
    allowed = [schemas.schema(row.domain, row.op, version).types for version in _versions(row)]
    lacking = {
        name: sorted(types.intersection(frozenset().union(*(a.get(name, frozenset()) for a in allowed)))
                     - seen.get(name, set()))
        for name, types in row.types.items()
    }  # fmt: skip
    lacking = {name: types for name, types in lacking.items() if types}
    assert not lacking, f"no case runs these types: {lacking}"


@pytest.mark.usefixtures("device")
def test_shared_buffers_are_exercised(row: Row) -> None:
    """In-place runs of cases whose shapes never allow it would test nothing."""
    good = [bound for bound in _cases_of(row) if bound.case.error is None]
    for pair in (*row.in_place, *row.aliases):
        assert any(shares(bound, pair) for bound in good), f"no case lets output {pair[1]} take over input {pair[0]}"
