"""A row of a case table, and its expansion into one bound case for each type and schema version."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from . import schemas
from .dtypes import name_of, name_of_type
from .inputs import Input, T, label
from .tolerances import Tolerance

MICROSOFT = "com.microsoft"

# Called with the inputs (floats widened to float64, None for absent ones) and the attributes by name; returns one array
# or a tuple of arrays.
Reference = Callable[..., Any]
Attribute = int | float | str | Sequence[int] | Sequence[float] | Sequence[str] | np.ndarray


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """What a node gets and what it must give: `expected` values, or an `error` (status code, part of its text).

    Give a numpy function as `expected` where one is short. "onnx_reference" and "ort_cpu" compute in float32 what has
    16 bits, and otherwise in the type of the case.
    """

    op: str
    inputs: Sequence[Input]
    expected: Reference | Literal["ort_cpu", "onnx_reference"] | None = None
    error: tuple[str, str] | None = None
    attrs: Mapping[str, Attribute] = field(default_factory=dict)
    domain: str = ""
    opset: int | str | Sequence[int] = schemas.NEWEST_OPSET  # "7+": all schema versions from that opset's on
    dtypes: Sequence[str] = ()  # what T stands for, in turn; a type that a schema version lacks is left out there
    outputs: int | Sequence[str] = 1  # how many, or the type of each: a name, T, or "" for one that nobody uses
    constants: Collection[int] = ()  # inputs that the operator knows when it is created
    options: Mapping[str, int] = field(default_factory=dict)  # of the provider
    # What the terms of each output add up to without their signs, where they may cancel: a function as `expected`, or
    # "absolute": `expected` of the inputs' absolute values. See harness/tolerances.py.
    magnitude: Reference | Literal["absolute"] | None = None
    tolerance: Tolerance | Mapping[str, Tolerance] | None = None  # instead of the table's, or by type of the output
    skip: Mapping[str, str] = field(default_factory=dict)  # mode -> why the case cannot run in it
    name: str = ""  # by default made of shapes and attributes

    def __post_init__(self) -> None:
        if (self.expected is None) == (self.error is None):
            raise ValueError(f"a case of {self.op} needs either `expected` or `error`")
        if not self.dtypes and any(getattr(spec, "dtype", None) == T for spec in self.inputs):
            raise ValueError(f"a case of {self.op} has inputs of type T but no `dtypes`")


@dataclass(frozen=True, eq=False)
class BoundCase:
    """A case with one type in place of T and one schema version; `id` is "family/op-version-type-name"."""

    id: str
    case: Case
    dtype: str  # empty without a sweep
    schema: schemas.Schema

    def input_type(self, index: int) -> str:
        """Type of an input, empty when it is absent."""
        spec = self.case.inputs[index] if index < len(self.case.inputs) else None
        if spec is None:
            return ""
        if isinstance(spec, np.ndarray):
            return name_of(spec)
        return self.dtype if spec.dtype == T else spec.dtype

    def output_types(self) -> list[str]:
        """Type of each output, empty for one that nobody uses."""
        if not isinstance(self.case.outputs, int):
            return [self.dtype if name == T else name for name in self.case.outputs]
        return [self._inferred_type(index) for index in range(self.case.outputs)]

    def _inferred_type(self, index: int) -> str:
        formal = self.schema.output(index)
        if formal is None:
            raise ValueError(f"{self.id}: the schema has no output {index}")
        if formal.type not in self.schema.types:
            return name_of_type(formal.type)
        for position in range(len(self.case.inputs)):
            source = self.schema.input(position)
            if source is not None and source.type == formal.type and self.input_type(position):
                return self.input_type(position)
        allowed = self.schema.types[formal.type]
        if len(allowed) == 1:
            return next(iter(allowed))
        raise ValueError(f"{self.id}: give `outputs` a type for output {index} ({formal.type})")

    def fits_schema(self) -> bool:
        """Whether the schema version allows the types of all inputs."""
        for index in range(len(self.case.inputs)):
            formal = self.schema.input(index)
            if formal is None or (self.input_type(index) and self.input_type(index) not in self.schema.allowed(formal)):
                return False
        return True


def expand(family: str, cases: Sequence[Case]) -> list[BoundCase]:
    """All bound cases of a table, in its order, with unique ids."""
    bound: list[BoundCase] = []
    used: dict[str, int] = {}
    for case in cases:
        found = list(_bind(family, case))
        if not found:
            raise ValueError(f"{family}: no schema of {case.op} allows the types of case {case.name or _label(case)}")
        for one in found:
            count = used[one.id] = used.get(one.id, 0) + 1
            bound.append(one if count == 1 else BoundCase(f"{one.id}~{count}", case, one.dtype, one.schema))
    return bound


def _bind(family: str, case: Case) -> Iterator[BoundCase]:
    for opset in _opsets(case):
        schema = schemas.schema(case.domain, case.op, opset)
        for dtype in case.dtypes or ("",):
            parts = [case.op, str(schema.since), dtype, case.name or _label(case)]
            bound = BoundCase(f"{family}/{'-'.join(filter(None, parts))}", case, dtype, schema)
            if case.error is not None or bound.fits_schema():
                yield bound


def _opsets(case: Case) -> list[int]:
    if isinstance(case.opset, str):
        first = schemas.schema(case.domain, case.op, int(case.opset.removesuffix("+"))).since
        return [version for version in schemas.versions(case.domain, case.op) if version >= first]
    return [case.opset] if isinstance(case.opset, int) else list(case.opset)


def _label(case: Case) -> str:
    parts = ["_".join(map(label, case.inputs))]
    for name, value in case.attrs.items():
        text = "x".join(map(str, value)) if isinstance(value, Sequence) and not isinstance(value, str) else str(value)
        parts.append(f"{name}={text}")
    return ",".join(parts)
