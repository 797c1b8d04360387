"""Every case of every table in tests/op/cases, in every mode it has; a test is an operator of a table."""

import traceback

import pytest

from ..session import host
from .harness import driver
from .harness.case import BoundCase
from .harness.check import CaseError, run_case
from .harness.families import all_cases
from .harness.modes import chosen_modes, wanted_modes

Cases = list[tuple[BoundCase, list[str]]]  # with their modes


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "cases" not in metafunc.fixturenames:
        return
    try:
        library = driver.load()
    except FileNotFoundError:
        library = None  # each test fails with the reason
    part = metafunc.config.getoption("cases")
    wanted = wanted_modes(metafunc.config.getoption("modes"))
    if host.plugin_path() is None:
        wanted -= {"session"}
    operators: dict[str, Cases] = {}
    for bound, modes in chosen_modes(all_cases().values(), library):
        if part in bound.id and wanted.intersection(modes):
            family = bound.id.split("/")[0]
            cases = operators.setdefault(f"{family}/{bound.case.op}", [])
            cases.append((bound, [mode for mode in modes if mode in wanted]))
    assert operators, "no case table has such a case"
    metafunc.parametrize("cases", operators.values(), ids=operators.keys())


@pytest.mark.usefixtures("device")
def test_cases(cases: Cases, subtests: pytest.Subtests, request: pytest.FixtureRequest) -> None:
    """A case that fails has a line of its own; all are counted, those that are skipped in all their modes apart."""
    skipped = []
    for bound, modes in cases:
        possible = [mode for mode in modes if mode not in bound.case.skip]
        if not possible:
            skipped.append(f"{bound.id}: " + "; ".join(bound.case.skip[mode] for mode in modes))
        problems = [problem for mode in possible if (problem := _problem(bound, mode))]
        if problems:
            with subtests.test(bound.id):
                raise CaseError("\n\n".join(problems))
    if len(skipped) == len(cases):
        pytest.skip("; ".join(skipped))
    request.node.user_properties += [("cases_run", len(cases) - len(skipped)), ("cases_skipped", len(skipped))]


def _problem(bound: BoundCase, mode: str) -> str:
    try:
        run_case(bound, mode)
    except CaseError as problem:
        return str(problem)
    except (Exception, pytest.skip.Exception):  # of the table's own code
        return f"{bound.id} [{mode}]: {traceback.format_exc()}"
    except BaseException as end:  # a time-out
        end.add_note(f"{bound.id} [{mode}]")
        raise
    return ""


def test_sessions_run() -> None:
    """Without a plug-in library the cases leave their session mode out, and this says why."""
    host.require_plugin()
