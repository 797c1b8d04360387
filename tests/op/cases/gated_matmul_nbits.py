"""The gated product of compiled regions with weights of few bits, GatedMatMulNBits: activation(A B1) * (A B2)."""

from typing import Any

import numpy as np

from ..harness import Case, Rand, Tolerance
from ..harness.inputs import Input
from ..harness.schemas import FUSED_DOMAIN
from .contrib_pointwise import _GATES
from .matmul_nbits import _expected as _product

_ALL = ("float32", "float16", "bfloat16")
# Terms of one sign lose a little each, in both factors. In 16 bits these are rounded where no kernel makes both, and
# weights of many rows too.
_TOLERANCE = {
    "float32": Tolerance(4, terms=16),
    "float16": Tolerance(2, terms=2.0**12),
    "bfloat16": Tolerance(2, terms=2.0**15),
}


def _factors(a: np.ndarray, *constants: np.ndarray | None, of: Any = np.asarray, **attrs: int) -> list[np.ndarray]:
    sets = [*constants, *[None] * (6 - len(constants))]
    return [_product(a, *sets[first : first + 3], of=of, **attrs) for first in (0, 3)]  # type: ignore[arg-type]


def _expected(*inputs: Any, activation: str = "none", **attrs: int) -> np.ndarray:
    first, second = _factors(*inputs, **attrs)
    y: np.ndarray = _GATES[activation](first) * second
    return y


def _magnitude(*inputs: Any, activation: str = "none", **attrs: int) -> np.ndarray:
    """What an error of either factor does, of which the other and the gate's slope are factors."""
    first, second = _factors(*inputs, of=np.abs, **attrs)
    size: np.ndarray = first * second
    return size


def _inputs(a: tuple[int, ...], n: int, bits: int, block: int, zeros: bool) -> list[Input]:
    """Sums of about 2, and 4 without their signs: most codes are above the middle."""
    blocks = -(-a[-1] // block)
    scale = 4 / (a[-1] * 2 ** (bits - 2))
    inputs: list[Input] = [Rand(a, low=0.5, high=1.5)]
    for _ in range(2):
        inputs.append(Rand((n, blocks, block * bits // 8), "uint8", low=128, high=255))
        inputs.append(Rand((n * blocks,), low=0.5 * scale, high=1.5 * scale))
        inputs.append(Rand((n, -(-blocks * bits // 8)), "uint8", full=True) if zeros else None)
    return inputs if zeros else inputs[:-1]


def _case(a: tuple[int, ...], n: int, bits: int = 4, block: int = 32, zeros: bool = False, activation: str = "silu",
          fed: tuple[int, ...] = (), dtypes: tuple[str, ...] = _ALL) -> Case:  # fmt: skip
    """fed: those of the constants that are inputs instead."""
    inputs = _inputs(a, n, bits, block, zeros)
    name = f"{'x'.join(map(str, a))}-n{n}-bits{bits}-block{block}-{activation}{'-zeros' * zeros}"
    return Case(
        op="GatedMatMulNBits",
        domain=FUSED_DOMAIN,
        inputs=inputs,
        attrs={"K": a[-1], "N": n, "bits": bits, "block_size": block, "activation": activation},
        constants={i for i, given in enumerate(inputs) if i > 0 and given is not None} - {*fed},
        expected=_expected,
        magnitude=_magnitude,
        dtypes=dtypes,
        tolerance=_TOLERANCE,
        name=name + "".join(f"-fed{index}" for index in fed),
    )


def _refused(message: str, code: str = "INVALID_ARGUMENT", *, name: str, drop: int | None = None,
             inner: int = 64, **attrs: Any) -> Case:  # fmt: skip
    """drop: the input that is left out. inner: A's last dimension."""
    inputs = _inputs((2, 64), 8, 4, 32, drop is not None)
    inputs[0] = Rand((2, inner))
    if drop is not None:
        inputs[drop] = None
    given = {"K": 64, "N": 8, "bits": 4, "block_size": 32, "activation": "silu"} | attrs
    return Case(op="GatedMatMulNBits", domain=FUSED_DOMAIN, dtypes=("float32",), inputs=inputs, attrs=given, name=name,
                error=(code, message))  # fmt: skip


CASES = [
    # A row, few, several groups of them, and more than a kernel of tensor cores takes
    *(
        _case((rows, 192), 40, bits, zeros=zeros)
        for rows in (1, 3, 17, 70)
        for bits in (4, 8)
        for zeros in (False, True)
    ),
    *(_case((rows, 128), 36, activation=gate) for gate in _GATES if gate != "none" for rows in (2, 40)),
    _case((2, 3, 70), 31, zeros=True),  # K is no multiple of the block, columns are odd
    _case((2, 35, 70), 31, block=16),
    _case((3, 1120), 100, zeros=True),
    _case((3, 1184), 100, 8, 128),
    _case((64, 256), 72, 4, 64, zeros=True, dtypes=("float16",)),
    _case((5, 128), 40, 2, dtypes=("float16",)),
    *(_case((m, 1140), 76, block=64, zeros=True, dtypes=("float16", "bfloat16")) for m in (1, 4, 8)),
    *(_case(a, n, dtypes=("float16",)) for a, n in (((2, 64), 9000), ((8, 16416), 36))),
    _case((64,), 24),
    _case((0, 64), 24),
    # nothing packed, or not all of it
    *(_case((rows, 128), 40, fed=(1, 2, 4, 5)) for rows in (3, 17, 70)),
    *(
        _case((rows, 128), 40, zeros=True, fed=(fed,), dtypes=("float16",))
        for rows in (3, 17, 70)
        for fed in (1, 4, 5, 6)
    ),
    _refused("A [2,65] does not end with K 64", name="wrong_k", inner=65),
    _refused("B [8,2,16] must have 512 elements", name="wrong_n", N=16),
    _refused("zero points of one type, or neither", name="one_of_zero_points", drop=3),
    _refused("activation 'clip' of a gate", "NOT_SUPPORTED", name="clip", activation="clip"),
    _refused("bits 3", "NOT_SUPPORTED", name="three_bits", bits=3),
]
