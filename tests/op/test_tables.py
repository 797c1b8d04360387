"""Every case can fail: results that are wrong in the ways that kernels are wrong differ from what it expects.

A wrong result that equals the right one in the type of the output (an empty one, zeros where zeros are right) is no
wrong result; nothing else is let pass.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from .harness.case import BoundCase
from .harness.check import tolerance_for, wanted_of
from .harness.compare import Magnitude, as_type, difference, same
from .harness.dtypes import numpy_dtype
from .harness.families import all_cases
from .harness.node import SEED_STEP, default_seed
from .harness.tolerances import Tolerance

pytestmark = pytest.mark.filterwarnings("ignore:.*encountered in.*:RuntimeWarning")


def _zero(values: np.ndarray) -> np.ndarray:
    """Nothing was computed."""
    return np.zeros_like(values)


def _scaled(values: np.ndarray) -> np.ndarray:
    """A tenth is missing of each element."""
    if values.dtype == np.bool_:
        return values
    with np.errstate(all="ignore"):
        return as_type(values.astype(np.complex128 if values.dtype.kind == "c" else np.float64) * 0.9, values.dtype)


def _moved(values: np.ndarray) -> np.ndarray:
    """One element took the place of the one that differs most from it."""
    flat = values.reshape(-1).copy()
    known = flat[flat == flat]
    if known.size == 0 or values.dtype.kind == "c":
        return np.roll(flat, 1).reshape(values.shape)
    low, high = (int(np.argmax((flat == end) & (flat == flat))) for end in (known.min(), known.max()))
    flat[low] = flat[high]
    return flat.reshape(values.shape)


def _cut(values: np.ndarray) -> np.ndarray:
    """The last element was not written, in memory of zeros; or, where that is right, in memory that was used."""
    flat = values.reshape(-1).copy()
    if flat.size:
        flat[-1] = 0 if flat[-1] != 0 else 1
    return flat.reshape(values.shape)


_PART = 1000  # elements
_FAMILIES = sorted({bound.id.split("/")[0] for bound in all_cases().values()})

_WRONG: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "zero": _zero,
    "scaled by 0.9": _scaled,
    "one element moved": _moved,
    "the end cut off": _cut,
}


def _seed(bound: BoundCase) -> int:
    """The same in every run: that values are telling is a property of the table."""
    return default_seed(bound) % SEED_STEP


@dataclass(frozen=True)
class Output:
    """Its exact values, the same in its type, the magnitude of its terms, and the type."""

    wanted: np.ndarray
    right: np.ndarray
    magnitude: Magnitude
    dtype: str


def _outputs(bound: BoundCase) -> list[Output]:
    wanted, scales = wanted_of(bound, _seed(bound))
    return [
        Output(want, as_type(want, numpy_dtype(dtype)), scale, dtype)
        for want, scale, dtype in zip(wanted, scales, bound.output_types(), strict=False)
        if want is not None and dtype
    ]


@pytest.fixture(scope="module", params=_FAMILIES)
def family(request: pytest.FixtureRequest) -> list[tuple[BoundCase, list[Output]]]:
    """One schema version of each case and type: the values are the same in the others."""
    cases = {(id(b.case), b.dtype): b for b in all_cases().values() if b.case.error is None}.values()
    return [(bound, _outputs(bound)) for bound in cases if bound.id.startswith(f"{request.param}/")]


def test_every_case_can_fail(family: list[tuple[BoundCase, list[Output]]]) -> None:
    blind = [
        f"{bound.id}, output {index}: {name}"
        for bound, outputs in family
        for index, output in enumerate(outputs)
        for name, wrong in _WRONG.items()
        if _passes(wrong(output.right), output, tolerance_for(bound, output.dtype))
    ]
    assert not blind, f"{len(blind)} wrong results pass: {blind[:20]}"


def _passes(got: np.ndarray, output: Output, tolerance: Tolerance) -> bool:
    """Whether a result that differs from the right one is let pass. A part of what differs tells nearly always."""
    differing = np.flatnonzero(~same(got, output.right))
    scales = np.broadcast_to(output.magnitude, got.shape).reshape(-1)
    got, wanted = got.reshape(-1), output.wanted.reshape(-1)
    return differing.size > 0 and all(
        difference(got[part], wanted[part], tolerance, scales[part]) is None for part in (differing[:_PART], differing)
    )


def test_every_operator_has_a_telling_case(family: list[tuple[BoundCase, list[Output]]]) -> None:
    """One with values that each of the wrong results differs from."""
    operators = {bound.case.op for bound, _ in family}
    for bound, outputs in family:
        if bound.case.op in operators and any(_is_telling(output.right) for output in outputs):
            operators.remove(bound.case.op)
    assert not operators


def _is_telling(right: np.ndarray) -> bool:
    wrong = (_zero, _cut) if right.size == 1 else (_zero, _cut, _moved)
    return not any(np.all(same(make(right), right)) for make in wrong)
