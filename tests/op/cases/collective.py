"""AllReduce, AllGather, ReduceScatter, AllToAll in a group of one rank; sessions have larger ones (tests/session)."""

from __future__ import annotations

from typing import Any

from ..harness import Case, Rand
from ..harness.schemas import OWN_DOMAIN, schema
from ..harness.tolerances import EXACT

_ALONE = {"collective_size": 1}
_ATTRIBUTES: dict[str, dict[str, Any]] = {
    "AllReduce": {"reduction": "sum"},
    "AllGather": {"axis": -1, "group_size": 1},
    "ReduceScatter": {"reduction": "max", "axis": 1, "group_size": 1},
    "AllToAll": {"split_axis": 1, "concat_axis": -2, "group_size": 1},
}


def _case(op: str, shape: tuple[int, ...], **more: Any) -> Case:
    types = tuple(sorted(schema(OWN_DOMAIN, op).types["Input0"]))
    return Case(op=op, domain=OWN_DOMAIN, inputs=[Rand(shape)], attrs=_ATTRIBUTES[op], opset=1, options=_ALONE,
                expected=lambda x, **_: x, tolerance=EXACT, **{"dtypes": types, **more})  # fmt: skip


def _refused(op: str, text: str, code: str = "INVALID_ARGUMENT", dtype: str = "float32",
             options: dict[str, int] | None = None, **attrs: Any) -> Case:  # fmt: skip
    return Case(op=op, domain=OWN_DOMAIN, inputs=[Rand((4, 6))], attrs={**_ATTRIBUTES[op], **attrs}, opset=1,
                dtypes=(dtype,), options=_ALONE if options is None else options, error=(code, text))  # fmt: skip


CASES = [
    *(_case(op, (3, 5)) for op in _ATTRIBUTES),
    *(_case(op, shape, dtypes=("float32", "float16"))
      for op in _ATTRIBUTES for shape in ((1, 1), (0, 3), (7, 129))),
    _case("AllReduce", (), dtypes=("float32",)),
    _refused("AllReduce", "belongs to no group of ranks", "NOT_SUPPORTED", options={}),
    _refused("AllReduce", "the mean of int32 is not offered", "NOT_SUPPORTED", "int32", reduction="mean"),
    _refused("ReduceScatter", "attribute reduction 'median'; known: sum", reduction="median"),
    _refused("AllGather", "attribute group_size is 2, and provider option collective_size is 1", group_size=2),
    _refused("AllToAll", "attribute group_size is 0", group_size=0),
    _refused("AllGather", "axis 2 is outside [-2, 2)", axis=2),
]  # fmt: skip
