"""The harness catches what it is there for: operators with one deliberate bug each (driver/broken_ops.cc)."""

import numpy as np
import pytest

from .harness import Case, Rand, Tolerance, driver
from .harness.case import BoundCase, expand
from .harness.check import CaseError, run_case
from .harness.compare import difference, ulp
from .harness.dtypes import numpy_dtype
from .harness.families import all_cases
from .harness.modes import LARGE_ELEMS, MODES, chosen_modes, wanted_modes
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


@pytest.mark.parametrize("mode", ["user_stream", "graph", "shifted", "create", "in_place", "alias"])
def test_a_correct_operator_passes(mode: str) -> None:
    run_case(_bound("Correct"), mode)


@pytest.mark.parametrize(
    ("op", "mode", "text"),
    [
        ("LastByteMissing", "user_stream", "1 of 37 elements differ"),
        ("AliasOnly", "user_stream", "37 of 37 elements differ"),
        ("RightWhenRepeated", "graph", "before the capture, output 0"),
        ("StaleValues", "graph", "replayed with other inputs, output 0"),
        ("WholePacks", "shifted", "elements differ"),
        ("WrongShape", "create", r"inferred shape \[38\], expected \[37\]"),
        ("WaitsInEnqueue", "graph", "(?i)capture"),
        ("ClearsFirst", "in_place", "in the buffer of input 0"),
        ("LastByteMissing", "shifted", "elements differ"),
    ],
)
def test_a_bug_is_caught(op: str, mode: str, text: str) -> None:
    with pytest.raises(CaseError, match=text):
        run_case(_bound(op), mode)


@pytest.mark.parametrize(
    ("op", "mode", "text"),
    [
        ("OneByteMore", "shifted", "DEVICE_ERROR"),
        ("WorkspaceOverrun", "graph", "DEVICE_ERROR"),
        ("OtherStream", "graph", "stream"),
        ("OtherStream", "shifted", "stream"),
        ("LateHostRead", "user_stream", "elements differ"),
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
        run_case(_bound("Correct"), "user_stream")


def test_a_failure_names_seed_and_command() -> None:
    with pytest.raises(CaseError, match=r"seed 5; run it again: python -m \S+ 'broken/AliasOnly'"):
        run_case(_bound("AliasOnly"), "user_stream", seed=5)


def test_a_missing_row_is_an_error() -> None:
    with pytest.raises(CaseError, match="no registered row"):
        run_case(_bound("Unknown"), "user_stream")


@pytest.mark.parametrize(
    ("got", "wanted", "equal"),
    [
        ([1.0, np.nan], [1.0, np.nan], True),
        ([np.inf], [1e300], True),  # beyond float32
        ([np.inf], [-np.inf], False),
        ([np.nan], [1.0], False),
        ([1.0], [np.nan], False),
        ([1.0], [np.inf], False),
        ([1.0], [1.0 + 2**-22], True),  # two ulps
        ([1.0], [1.0 + 5 * 2**-24], False),  # two and a half
        ([1.0], [1.0 - 3 * 2**-24], False),  # three, since ulps are half as large below 1
        ([1e6], [1e6 + 0.125], True),
        ([1e6], [1e6 + 0.25], False),
        ([1e-9], [0.0], False),
        ([2.0**-148], [0.0], True),  # subnormal numbers are one ulp of the smallest normal one apart
        ([2.0**-147], [0.0], False),
        ([1.0, 2.0], [1.0], False),
    ],
)
def test_difference(got: list[float], wanted: list[float], equal: bool) -> None:
    result = difference(np.array(got, np.float32), np.array(wanted, np.float64), Tolerance(2))
    assert (result is None) == equal


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_types_have_their_own_ulps(dtype: str) -> None:
    one = np.ones(1, numpy_dtype(dtype))
    unit = float(ulp(np.ones(1), one.dtype)[0])
    assert unit == {"float16": 2.0**-10, "bfloat16": 2.0**-7}[dtype]
    assert difference(one, np.array([1 + 0.59 * unit]), Tolerance(0.6)) is None
    assert difference(one, np.array([1 + 0.61 * unit]), Tolerance(0.6)) is not None


def test_terms_allow_for_what_cancels() -> None:
    got, wanted = np.array([1e-5], np.float32), np.array([0.0])
    assert difference(got, wanted, Tolerance(4)) is not None
    assert difference(got, wanted, Tolerance(4, terms=4), magnitude=22.0) is None  # 4 * 2^-23 * 22 = 1.05e-5
    assert difference(got, wanted, Tolerance(4, terms=4), magnitude=20.0) is not None
    assert difference(got, wanted, Tolerance(4, abs=1e-5, reason="a test")) is None


def test_an_absolute_tolerance_needs_a_reason() -> None:
    with pytest.raises(ValueError, match="reason"):
        Tolerance(1, abs=1e-3)


def test_difference_of_exact_types() -> None:
    assert difference(np.array([255], np.uint8), np.array([-1], np.int64), Tolerance(0)) is None
    assert difference(np.array([1], np.int32), np.array([2], np.int32), Tolerance(1)) is not None
    assert difference(np.array([1 + 1j], np.complex64), np.array([1 + 1.1j]), Tolerance(1)) is not None
    poison = np.frombuffer(b"\xa5", np.bool_)
    assert "neither 0 nor 1" in str(difference(poison, np.array([True]), Tolerance(0)))


def test_versions_of_one_row_are_created_and_one_case_of_each_runs() -> None:
    library = driver.load()
    chosen: dict[str, list[str]] = {}
    for bound, modes in chosen_modes(all_cases().values(), library):
        if (bound.case.op, bound.dtype) == ("Transpose", "float32") and bound.case.error is None:
            chosen.setdefault(str(bound.schema.since), []).extend(modes)
    assert "graph" in chosen.pop(max(chosen, key=int))
    assert len(chosen) >= 3
    assert all(modes.count("create") >= 1 and not {"graph", "shifted"} & {*modes} for modes in chosen.values())


def test_one_large_case_of_a_row_is_replayed_and_on_gpus_all() -> None:
    def of_size(size: int) -> list[BoundCase]:
        return expand("size", [Case(op="Abs", inputs=[Rand((size,))], expected=np.abs, dtypes=("float32",), opset=13)])

    (small,), (large,), (larger,) = (of_size(LARGE_ELEMS + more) for more in (-1, 0, 1))
    replays = driver.load().backend != "simulated"
    chosen = dict(chosen_modes([small, large, larger], driver.load()))
    assert "graph" in chosen[small] and "graph" in chosen[large]
    assert {"shifted", "graph" if replays else "user_stream"} <= {*chosen[larger]}
    assert ("graph" in chosen[larger]) == replays
    assert all("graph" in modes for _, modes in chosen_modes([large, larger], driver.load()))


def test_what_the_host_sees_runs_in_a_session_once() -> None:
    """Every form of a node (types, attributes, absent, scalar and empty inputs, constants), and every refusal."""
    names = ["Abs", "Gemm", "Clip", "ReduceSum"]
    table = [bound for bound in all_cases().values() if bound.case.op in names]
    chosen = {bound.id: modes for bound, modes in chosen_modes(table, driver.load())}
    for op in names:
        possible = [bound for bound in table if bound.case.op == op and "session" not in bound.case.skip]
        ran = [bound for bound in possible if "session" in chosen.get(bound.id, ())]
        assert 0 < len(ran) < len(possible)
        for bound in possible:
            if "create" in chosen[bound.id]:
                continue
            assert "session" in chosen[bound.id] or any(
                (one.schema, one.dtype, one.case.attrs.keys(), one.case.constants)
                == (bound.schema, bound.dtype, bound.case.attrs.keys(), bound.case.constants)
                for one in ran
            ), bound.id
            assert bound.case.error is None or "session" in chosen[bound.id]


def test_modes_by_name() -> None:
    assert wanted_modes("") == {*MODES}
    assert wanted_modes("graph,shifted") == {"graph", "shifted"}
    assert wanted_modes("-session") == {*MODES} - {"session"}
    with pytest.raises(ValueError, match="no such modes: grahp"):
        wanted_modes("grahp")
