"""com.microsoft's MatMulBnb4."""

from typing import Any

import numpy as np

from ..harness import MICROSOFT, Case, Rand, Tolerance

TYPES = ("float32", "float16", "bfloat16")

_FP4 = [0, 1 / 192, 2 / 3, 1, 1 / 3, 1 / 2, 1 / 6, 1 / 4]
_NF4 = [-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
        -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
        0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023,
        1.0]  # fmt: skip
_TABLES = np.array([[*_FP4, *(-x for x in _FP4)], _NF4])


def product(
    a: np.ndarray, b: np.ndarray, absmax: np.ndarray, K: int, N: int, block_size: int, quant_type: int,  # noqa: N803
    transB: int = 1, training_mode: int = 0, terms: bool = False,  # noqa: N803
) -> np.ndarray:  # fmt: skip
    del training_mode
    codes = np.stack([b >> 4, b & 15], -1).reshape(-1)[: N * K]
    weights = (_TABLES[quant_type][codes] * np.repeat(absmax, block_size)[: N * K]).reshape(N, K)
    if terms:
        a, weights = np.abs(a), np.abs(weights)
    y: np.ndarray = a @ (weights.T if transB else weights)
    return y


def _magnitude(*inputs: Any, **attrs: Any) -> np.ndarray:
    return product(*inputs, **attrs, terms=True)


def _case(lead: tuple[int, ...], k: int, n: int, block: int = 64, table: int = 1, *, dtypes: Any = ("float32",),
          constants: Any = (), **attrs: int) -> Case:  # fmt: skip
    inner = k if attrs.get("transB", 1) else n
    named = [
        "x".join(map(str, lead)),
        f"{k}x{n}",
        str(block),
        ("fp4", "nf4")[table],
        *(f"{a}={v}" for a, v in attrs.items()),
    ]
    few = attrs.get("transB", 1) and np.prod(lead) <= 8
    # Many rows meet weights that were rounded to 16 bits.
    rounded = {"float16": Tolerance(1, terms=2.0**13), "bfloat16": Tolerance(1, terms=2.0**16)}
    return Case(op="MatMulBnb4", domain=MICROSOFT, opset=1, dtypes=dtypes, expected=product, magnitude=_magnitude,
                inputs=[Rand((*lead, inner)), Rand(((n * k + 1) // 2,), "uint8", full=True),
                        Rand((-(-n * k // block),), low=0.1, high=2)],
                attrs={"K": k, "N": n, "block_size": block, "quant_type": table, **attrs}, constants=constants,
                tolerance=None if few else rounded, name="-".join(named))  # fmt: skip


def _refused(text: str, a: tuple[int, ...] = (2, 32), b: int = 48, scales: int = 6, **attrs: int) -> Case:
    full = {"K": 32, "N": 3, "block_size": 16, "quant_type": 1, **attrs}
    return Case(op="MatMulBnb4", domain=MICROSOFT, opset=1, dtypes=("float32",), attrs=full,
                name=text.replace(" ", "_"), inputs=[Rand(a), Rand((b,), "uint8"), Rand((scales,))],
                error=("INVALID_ARGUMENT", text),
                skip={"session": "the host's shape inference may refuse first"})  # fmt: skip


CASES = [
    *(_case(lead, 64, 24, 16, table, dtypes=TYPES) for lead in ((1,), (3,), (2, 4), (2, 20)) for table in (0, 1)),
    *(_case((m,), 300, 17, block) for m in (1, 5, 30) for block in (16, 32, 64, 128, 256)),
    # odd sizes: columns begin within a byte, and a scale serves two of them
    *(_case((m,), 35, 9, 16, table) for m in (1, 8, 9) for table in (0, 1)),
    _case((2,), 8, 3, 512),
    *(_case(lead, 40, 24, 32, transB=0, dtypes=TYPES) for lead in ((1,), (2, 20))),
    _case((2,), 64, 8, 16, training_mode=1, transB=1),
    _case((2, 3), 64, 8, 16, constants=(1, 2)),
    _case((0,), 64, 8, 16),
    _refused("quant_type 2", quant_type=2),
    _refused("block_size 24", block_size=24),
    _refused("block_size 8", block_size=8),
    _refused("K 0 and N 3", K=0),
    _refused("does not end with K 32", (2, 31)),
    _refused("does not end with N 3", transB=0),
    _refused("must have 48 elements", b=47),
    _refused("must have 6 elements", scales=5),
]  # fmt: skip
