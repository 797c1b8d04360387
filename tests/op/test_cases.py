"""Every case of every table in tests/op/cases, in every mode it has."""

import pytest

from ..session import host
from .harness import driver
from .harness.case import BoundCase
from .harness.check import run_case
from .harness.families import all_cases
from .harness.modes import chosen_modes


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    try:
        library = driver.load()
    except FileNotFoundError:
        library = None  # each test fails with the reason
    chosen = chosen_modes(all_cases().values(), library)
    params = [pytest.param(bound, mode, id=f"{bound.id}-{mode}") for bound, mode in chosen]
    assert params, "no case table has a case"
    metafunc.parametrize(("bound", "mode"), params)


@pytest.mark.usefixtures("device")
def test_case(bound: BoundCase, mode: str) -> None:
    if mode in bound.case.skip:
        pytest.skip(bound.case.skip[mode])
    if mode == "session":
        host.require_plugin()
    run_case(bound, mode)
