"""The harness catches what it is there for: operators with one deliberate bug each (driver/broken_ops.cc)."""

import numpy as np
import pytest

from .harness import Case, Rand, Tolerance, driver
from .harness.case import BoundCase
from .harness.check import CaseError, run_case
from .harness.compare import difference
from .harness.schemas import Formal, Schema

_TYPES = {"T": frozenset({"float32", "uint8"})}


def _bound(op: str) -> BoundCase:
    case = Case(op=op, domain=driver.BROKEN_DOMAIN, inputs=[Rand((37,), "uint8", full=True)], expected=lambda x: x)
    formal = (Formal("x", "T", False),)
    return BoundCase(f"broken/{op}", case, "", Schema(driver.BROKEN_DOMAIN, op, 1, formal, formal, _TYPES, {}))


pytestmark = pytest.mark.usefixtures("device")


@pytest.fixture(scope="module")
def simulated() -> bool:
    return driver.load().backend == "simulated"


@pytest.mark.parametrize("mode", ["eager", "user_stream", "graph", "in_place", "alias"])
def test_a_correct_operator_passes(mode: str) -> None:
    run_case(_bound("Correct"), mode)


@pytest.mark.parametrize(
    ("op", "mode", "text"),
    [
        ("LastByteMissing", "eager", "1 of 37 elements differ"),
        ("AliasOnly", "eager", "37 of 37 elements differ"),
        ("StaleValues", "graph", "launch 2, output 0"),
        ("WaitsInEnqueue", "graph", "(?i)capture"),
        ("ClearsFirst", "in_place", "in the buffer of input 0"),
        ("LastByteMissing", "user_stream", "elements differ"),
    ],
)
def test_a_bug_is_caught(op: str, mode: str, text: str) -> None:
    with pytest.raises(CaseError, match=text):
        run_case(_bound(op), mode)


@pytest.mark.parametrize(
    ("op", "mode", "text"),
    [
        ("OneByteMore", "eager", "DEVICE_ERROR"),
        ("WorkspaceOverrun", "user_stream", "DEVICE_ERROR"),
        ("OtherStream", "user_stream", "stream"),
        ("LateHostRead", "eager", "elements differ"),
    ],
)
def test_a_bug_is_caught_on_the_simulated_device(op: str, mode: str, text: str, simulated: bool) -> None:
    if not simulated:
        pytest.skip("a GPU does not notice this")
    with pytest.raises(CaseError, match=text):
        run_case(_bound(op), mode)


def test_the_device_recovers_after_a_bug() -> None:
    for _ in range(3):
        with pytest.raises(CaseError):
            run_case(_bound("WaitsInEnqueue"), "graph")
        run_case(_bound("Correct"), "eager")


def test_a_failure_names_seed_and_command() -> None:
    with pytest.raises(CaseError, match=r"seed 5; run it again: python -m \S+ 'broken/AliasOnly'"):
        run_case(_bound("AliasOnly"), "eager", seed=5)


def test_a_missing_row_is_an_error() -> None:
    with pytest.raises(CaseError, match="no registered row"):
        run_case(_bound("Unknown"), "eager")


@pytest.mark.parametrize(
    ("got", "wanted", "equal"),
    [
        ([1.0, np.nan], [1.0, np.nan], True),
        ([np.inf], [1e300], True),  # beyond float32
        ([np.inf], [-np.inf], False),
        ([np.nan], [1.0], False),
        ([1.0], [np.nan], False),
        ([1.0], [np.inf], False),
        ([1.0], [1.0 + 1e-7], True),
        ([1.0], [1.0 + 1e-3], False),
        ([1.0, 2.0], [1.0], False),
        ([1000.0], [1000.01], False),
        ([1e-9], [0.0], True),
    ],
)
def test_difference(got: list[float], wanted: list[float], equal: bool) -> None:
    result = difference(np.array(got, np.float32), np.array(wanted, np.float64), Tolerance(1e-6))
    assert (result is None) == equal


def test_difference_of_exact_types() -> None:
    assert difference(np.array([255], np.uint8), np.array([-1], np.int64), Tolerance(0)) is None
    assert difference(np.array([1], np.int32), np.array([2], np.int32), Tolerance(1.0)) is not None
    poison = np.frombuffer(b"\xa5", np.bool_)
    assert "neither 0 nor 1" in str(difference(poison, np.array([True]), Tolerance(0)))
