"""Differences between arrays."""

import numpy as np
import pytest
from ort_cuda_ep.comparison import compare

ONE = np.ones(3, np.float32)


@pytest.mark.parametrize(
    ("actual", "expected", "ok"),
    [
        (ONE, ONE, True),
        (ONE + np.float32(5e-4), ONE, True),
        (ONE + np.float32(5e-3), ONE, False),
        (ONE, ONE.astype(np.float16), False),
        (ONE, np.ones((3, 1), np.float32), False),
        (np.array([np.nan, np.inf]), np.array([np.nan, np.inf]), True),
        (np.array([np.nan]), np.array([1.0]), False),
        (np.array([np.inf]), np.array([-np.inf]), False),
        (np.array([1, 2]), np.array([1, 3]), False),
        (np.array(["a"]), np.array(["a"]), True),
        (np.zeros(0, np.float32), np.zeros(0, np.float32), True),
    ],
)
def test_compare(actual: np.ndarray, expected: np.ndarray, ok: bool) -> None:
    assert compare([actual], [expected], atol=1e-3, rtol=0).ok is ok


def test_the_largest_difference_is_reported() -> None:
    found = compare([ONE, ONE * 3], [ONE, ONE * 2], atol=2, rtol=0)
    assert (found.max_abs, found.max_rel, found.ok) == (1.0, 0.5, True)
