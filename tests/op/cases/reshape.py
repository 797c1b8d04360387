"""Reshape, Flatten, Squeeze, Unsqueeze, Identity: the values stay, the shape changes."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..harness import Case, Rand
from ..harness.dtypes import FIXED_SIZE, STORED
from ..harness.tolerances import EXACT


def _ints(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def _to(shape: Sequence[int]) -> Any:
    """A reference that gives the first input the shape written in the case."""
    return lambda x, *_, **__: x.reshape(shape)


def _reshape(before: Sequence[int], wanted: Sequence[int], after: Sequence[int], **attrs: int) -> Case:
    name = f"{_text(before)}_to_{_text(wanted)}{'z' * len(attrs)}"
    return Case(op="Reshape", inputs=[Rand(before), _ints(*wanted)], attrs=attrs, dtypes=("float32",),
                expected=_to(after), tolerance=EXACT, name=name)  # fmt: skip


def _text(dims: Sequence[int]) -> str:
    return "x".join(map(str, dims)) or "scalar"


def _refused(op: str, shape: Sequence[int], text: str, wanted: Sequence[int] | None = None, **attrs: Any) -> Case:
    inputs: list[Rand | np.ndarray] = [Rand(shape), *([] if wanted is None else [_ints(*wanted)])]
    return Case(op=op, inputs=inputs, attrs=attrs, dtypes=("float32",), error=("INVALID_ARGUMENT", text))


_RESHAPES = [
    _reshape((2, 3, 4), (4, 6), (4, 6)),
    _reshape((2, 3, 4), (-1,), (24,)),
    _reshape((2, 3, 4), (0, -1), (2, 12)),
    _reshape((2, 3, 4), (0, 0, 2, -1), (2, 3, 2, 2)),
    _reshape((1, 1), (), ()),
    _reshape((), (1, -1, 1), (1, 1, 1)),
    _reshape((0, 3), (3, 0), (3, 0), allowzero=1),
    _reshape((0, 3), (0, 3), (0, 3)),
    _reshape((0, 3), (7, 0), (7, 0), allowzero=1),
    _reshape((2, 0), (5, -1), (5, 0)),
    _reshape((2, 3), (2, -1), (2, 3), allowzero=1),
]

_FLATTENS = [
    ((2, 3, 4), 1, (2, 12)),
    ((2, 3, 4), 0, (1, 24)),
    ((2, 3, 4), 3, (24, 1)),
    ((2, 3, 4), -1, (6, 4)),
    ((2, 3, 4), -3, (1, 24)),
    ((), 0, (1, 1)),
    ((2, 0, 3), 1, (2, 0)),
]

_SQUEEZES = [
    ((1, 3, 1, 5), None, (3, 5)),
    ((1, 3, 1, 5), (0,), (3, 1, 5)),
    ((1, 3, 1, 5), (-2, 0), (3, 5)),
    ((1, 3, 1, 5), (2, 2, -2), (1, 3, 5)),
    ((1, 1), (0, 1), ()),
    ((3, 5), None, (3, 5)),
    ((), None, ()),
    ((1, 0, 1), (2,), (1, 0)),
]

_UNSQUEEZES = [
    ((3, 4), (0,), (1, 3, 4)),
    ((3, 4), (-1,), (3, 4, 1)),
    ((3, 4), (3, 0, 2), (1, 3, 1, 1, 4)),
    ((3, 4), (-4, -1), (1, 3, 4, 1)),
    ((), (0, 1), (1, 1)),
    ((0,), (0,), (1, 0)),
]


def _with_axes(op: str, before: Sequence[int], axes: Sequence[int] | None, after: Sequence[int]) -> list[Case]:
    """The axes as an input, and as an attribute for opset 11."""
    common: dict[str, Any] = {"op": op, "dtypes": ("float32",), "expected": _to(after), "tolerance": EXACT}
    name = f"{_text(before)}_axes_{'none' if axes is None else _text(axes)}"
    if axes is None:
        return [Case(**common, inputs=[Rand(before)], opset=opset, name=name) for opset in (11, 25)]
    return [
        Case(**common, inputs=[Rand(before), _ints(*axes)], name=name),
        Case(**common, inputs=[Rand(before)], attrs={"axes": axes}, opset=11, name=name),
    ]


CASES = [
    *_RESHAPES,
    Case(op="Reshape", inputs=[Rand((3, 4)), _ints(2, 6)], dtypes=STORED, opset="5+", expected=_to((2, 6)),
         tolerance=EXACT, name="types"),
    Case(op="Reshape", inputs=[Rand((3, 4)), _ints(2, 6)], dtypes=("float32",), expected=_to((2, 6)), constants=(1,),
         tolerance=EXACT, name="constant"),
    _refused("Reshape", (2, 3), "cannot be reshaped to [4,2]", (4, 2)),
    _refused("Reshape", (2, 3), "cannot be reshaped to [4,-1]", (4, -1)),
    _refused("Reshape", (2, 3), "more than one -1", (-1, -1)),
    _refused("Reshape", (2, 3), "below -1", (-2, 3)),
    _refused("Reshape", (2, 3), "copies dimension 2", (2, 3, 0)),
    _refused("Reshape", (0, 3), "both -1 and a dimension of 0", (0, -1)),
    _refused("Reshape", (0, 3), "both -1 and a dimension of 0", (0, -1), allowzero=1),
    _refused("Reshape", (2, 3), "exceeds 64 bits", (2**40, 2**40)),

    *(Case(op="Flatten", inputs=[Rand(before)], attrs={"axis": axis}, dtypes=("float32",), expected=_to(after),
           tolerance=EXACT) for before, axis, after in _FLATTENS),
    Case(op="Flatten", inputs=[Rand((3, 2, 2))], dtypes=STORED, opset="1+", expected=_to((3, 4)),
         tolerance=EXACT, name="types"),
    _refused("Flatten", (2, 3), "axis 3 is outside [-2, 2]", axis=3),
    _refused("Flatten", (), "axis 1 is outside", axis=1),

    *(case for row in _SQUEEZES for case in _with_axes("Squeeze", *row)),
    Case(op="Squeeze", inputs=[Rand((3, 1)), _ints()], dtypes=("float32",), expected=_to((3, 1)), tolerance=EXACT,
         name="no_axis"),
    Case(op="Squeeze", inputs=[Rand((1, 12))], dtypes=STORED, opset="1+", expected=_to((12,)), tolerance=EXACT,
         name="types"),
    _refused("Squeeze", (2, 1), "axis 0 of shape [2,1]", (0,)),
    _refused("Squeeze", (2, 1), "axis 2 is outside [-2, 2)", (2,)),

    *(case for row in _UNSQUEEZES for case in _with_axes("Unsqueeze", *row)),
    Case(op="Unsqueeze", inputs=[Rand((12,)), _ints(0)], dtypes=STORED, opset="13+", expected=_to((1, 12)),
         tolerance=EXACT, name="types"),
    Case(op="Unsqueeze", inputs=[Rand((2, 3))], attrs={"axes": (0, 3)}, dtypes=FIXED_SIZE, opset=(1, 11),
         expected=_to((1, 2, 3, 1)), tolerance=EXACT, skip={"session": "no host runs opset 1"}),
    _refused("Unsqueeze", (2, 3), "named twice", (0, -4)),
    _refused("Unsqueeze", (2, 3), "axis 3 is outside [-3, 3)", (3,)),

    Case(op="Identity", inputs=[Rand((3, 5))], dtypes=STORED, opset="1+", expected=_to((3, 5)), tolerance=EXACT),
    Case(op="Identity", inputs=[Rand(())], dtypes=("float32",), expected=_to(()), tolerance=EXACT),
    Case(op="Identity", inputs=[Rand((0, 2))], dtypes=("float32",), expected=_to((0, 2)), tolerance=EXACT),
    Case(op="Identity", inputs=[Rand((99,), specials=True)], dtypes=("float16",), expected=_to((99,)),
         tolerance=EXACT, name="specials"),
]  # fmt: skip
