"""Every case of every table in tests/op/cases, in every mode it has."""

import pytest

from ..session import host
from .harness import driver
from .harness.case import BoundCase
from .harness.check import CaseError, run_case
from .harness.families import all_cases
from .harness.modes import chosen_modes, wanted_modes


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "bound" not in metafunc.fixturenames:
        return
    try:
        library = driver.load()
    except FileNotFoundError:
        library = None  # each test fails with the reason
    wanted = wanted_modes(metafunc.config.getoption("modes"))
    if host.plugin_path() is None:
        wanted -= {"session"}
    chosen = chosen_modes(all_cases().values(), library)
    params = [
        pytest.param(bound, [mode for mode in modes if mode in wanted], id=bound.id)
        for bound, modes in chosen
        if wanted.intersection(modes)
    ]
    assert params, "no case table has a case"
    metafunc.parametrize(("bound", "modes"), params)


@pytest.mark.usefixtures("device")
def test_case(bound: BoundCase, modes: list[str]) -> None:
    possible = [mode for mode in modes if mode not in bound.case.skip]
    if not possible:
        pytest.skip("; ".join(f"{mode}: {bound.case.skip[mode]}" for mode in modes))
    problems = []
    for mode in possible:
        try:
            run_case(bound, mode)
        except CaseError as problem:
            problems.append(str(problem))
    if problems:
        raise CaseError("\n\n".join(problems))


def test_sessions_run() -> None:
    """Without a plug-in library the cases leave their session mode out, and this says why."""
    host.require_plugin()
