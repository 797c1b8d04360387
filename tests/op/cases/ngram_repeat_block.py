"""com.microsoft's NGramRepeatBlock."""

from typing import Any

import numpy as np

from ..harness import MICROSOFT, Case, Rand
from ..harness.tolerances import EXACT


def _blocked(ids: np.ndarray, scores: np.ndarray, ngram_size: int) -> np.ndarray:
    y = scores.copy()
    for row, out in zip(ids, y, strict=True):
        last = row[len(row) - ngram_size + 1 :]
        for start in range(len(row) - ngram_size + 1):
            token = row[start + ngram_size - 1]
            if (row[start : start + ngram_size - 1] == last).all() and 0 <= token < len(out):
                out[token] = -np.inf
    return y


def _case(ids: Any, vocabulary: int, n: int, name: str) -> Case:
    return Case(op="NGramRepeatBlock", domain=MICROSOFT, opset=1, expected=_blocked, attrs={"ngram_size": n},
                inputs=[ids, Rand((ids.shape[0], vocabulary), "float32")], tolerance=EXACT,
                name=f"{name}_{n}")  # fmt: skip


_REFUSED: dict[str, Any] = {"op": "NGramRepeatBlock", "domain": MICROSOFT, "opset": 1,
                            "skip": {"session": "the host's shape inference may refuse first"}}  # fmt: skip
_IDS = np.array([[1, 2, 3, 1, 2], [4, 4, 4, 4, 4], [0, 1, 0, 1, 0]])

CASES = [
    *(_case(_IDS, 6, n, "rows") for n in (1, 2, 3, 4, 5, 6, 9, 2**63 - 1)),
    *(_case(Rand((3, length), "int64", low=0, high=3), 5, n, f"drawn_{length}")
      for length, n in ((1, 1), (1, 2), (7, 2), (300, 3), (300, 5))),
    _case(Rand((2, 600), "int64", low=0, high=19999), 20000, 1, "parts"),
    _case(Rand((2, 600), "int64", low=8185, high=8200), 20000, 2, "border"),
    _case(np.array([[7, 2, -3, 7, 2], [1, 9, 9, 1, 9]]), 5, 3, "outside"),
    _case(np.zeros((2, 0), np.int64), 5, 2, "no_tokens"),
    _case(np.zeros((0, 4), np.int64), 5, 2, "no_rows"),
    Case(**_REFUSED, inputs=[_IDS, Rand((3, 6), "float32")], attrs={"ngram_size": 0},
         error=("INVALID_ARGUMENT", "ngram_size 0")),
    Case(**_REFUSED, inputs=[_IDS, Rand((2, 6), "float32")], attrs={"ngram_size": 2},
         error=("INVALID_ARGUMENT", "must be rows of one batch")),
]  # fmt: skip
