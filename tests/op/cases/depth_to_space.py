"""DepthToSpace and SpaceToDepth."""

import numpy as np

from ..harness import Case, Rand
from ..harness.dtypes import FIXED_SIZE
from ..harness.tolerances import EXACT


def _to_space(x: np.ndarray, blocksize: int, mode: str = "DCR") -> np.ndarray:
    n, c, h, w = x.shape
    depth = c // blocksize**2
    if mode == "DCR":
        blocks = x.reshape(n, blocksize, blocksize, depth, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        blocks = x.reshape(n, depth, blocksize, blocksize, h, w).transpose(0, 1, 4, 2, 5, 3)
    return blocks.reshape(n, depth, h * blocksize, w * blocksize)


def _to_depth(x: np.ndarray, blocksize: int, mode: str = "DCR") -> np.ndarray:
    n, c, h, w = x.shape
    blocks = x.reshape(n, c, h // blocksize, blocksize, w // blocksize, blocksize)
    blocks = blocks.transpose((0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4))
    return blocks.reshape(n, c * blocksize**2, h // blocksize, w // blocksize)


_DEPTHS = [
    ((1, 8, 2, 3), 2),
    ((2, 9, 4, 1), 3),
    ((2, 4, 3, 5), 1),
    ((0, 4, 3, 5), 2),
    ((1, 64, 24, 40), 4),
    ((2, 8, 32, 64), 2),
    ((1, 18, 40, 48), 3),
]
_SPACES = [
    ((1, 2, 4, 6), 2),
    ((2, 3, 9, 3), 3),
    ((2, 4, 3, 5), 1),
    ((1, 0, 4, 4), 2),
    ((1, 4, 96, 160), 4),
    ((2, 2, 64, 128), 2),
    ((1, 2, 120, 144), 3),
]
_WIDTHS = ("int8", "float16", "float32")

CASES = [
    *(Case(op="DepthToSpace", inputs=[Rand(shape)], attrs={"blocksize": size, "mode": mode}, dtypes=_WIDTHS,
           expected=_to_space, tolerance=EXACT) for shape, size in _DEPTHS for mode in ("DCR", "CRD")),
    *(Case(op="SpaceToDepth", inputs=[Rand(shape)], attrs={"blocksize": size}, dtypes=_WIDTHS,
           expected=_to_depth, tolerance=EXACT) for shape, size in _SPACES),
    *(Case(op="SpaceToDepth", inputs=[Rand(shape)], attrs={"blocksize": size, "mode": "CRD"}, dtypes=_WIDTHS,
           expected=_to_depth, tolerance=EXACT) for shape, size in _SPACES),
    Case(op="SpaceToDepth", inputs=[Rand((1, 2, 4, 6))], attrs={"blocksize": 2, "mode": "RCD"}, dtypes=("float32",),
         error=("INVALID_ARGUMENT", "mode RCD")),
    Case(op="DepthToSpace", inputs=[Rand((1, 8, 2, 3))], attrs={"blocksize": 2}, dtypes=FIXED_SIZE, opset="1+",
         expected=_to_space, tolerance=EXACT, name="types"),
    Case(op="SpaceToDepth", inputs=[Rand((1, 2, 4, 6))], attrs={"blocksize": 2}, dtypes=FIXED_SIZE, opset="1+",
         expected=_to_depth, tolerance=EXACT, name="types"),
    Case(op="DepthToSpace", inputs=[Rand((1, 8, 2, 3))], attrs={"blocksize": 3}, dtypes=("float32",),
         error=("INVALID_ARGUMENT", "blocks of 3")),
    Case(op="DepthToSpace", inputs=[Rand((1, 8, 2, 3))], attrs={"blocksize": 0}, dtypes=("float32",),
         error=("INVALID_ARGUMENT", "blocksize 0"), skip={"session": "the host's own shape inference refuses it"}),
    Case(op="SpaceToDepth", inputs=[Rand((1, 2, 5, 6))], attrs={"blocksize": 2}, dtypes=("float32",),
         error=("INVALID_ARGUMENT", "[1,2,5,6] does not divide into blocks of 2")),
    Case(op="SpaceToDepth", inputs=[Rand((2, 4, 6))], attrs={"blocksize": 2}, dtypes=("float32",),
         error=("INVALID_ARGUMENT", "must have 4 dimensions")),
]  # fmt: skip
