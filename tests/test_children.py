"""Workers that die or hang cost one case."""

from typing import Any

import pytest

from . import children


class _Children:
    """Stands for worker processes: a case with an odd number kills its child."""

    made = 0

    def __init__(self) -> None:
        type(self).made += 1
        self._alive = True

    def run(self, number: int, _timeout: float) -> dict[str, Any] | None:
        assert self._alive
        self._alive = number % 2 == 0
        return {"outcome": "right"} if self._alive else None

    def end(self) -> str:
        return "exit code -11"


@pytest.mark.parametrize("jobs", [1, 3])
def test_a_child_that_dies_costs_its_case_alone(jobs: int) -> None:
    _Children.made = 0
    outcomes = dict(children.run_all(_Children, range(7), 1, jobs))
    assert [outcomes[number]["outcome"] for number in range(7)] == ["right", "crash"] * 3 + ["right"]
    assert _Children.made >= 4


def test_an_error_in_a_child_is_told() -> None:
    def start() -> children.Child:
        raise FileNotFoundError("no worker")

    with pytest.raises(FileNotFoundError):
        list(children.run_all(start, [1], 1, 1))


def test_a_child_that_says_nothing_is_given_up() -> None:
    child = children.Child(["sleep", "60"])
    assert child.run(0, 0.1) is None
    assert child.end() == "exit code -9"
