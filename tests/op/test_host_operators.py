"""The host's side of shape arithmetic (src/graph/shape) against the case tables of the same operators.

Every case of an operator that is evaluated on the host runs there too, where its types are, in its version and, for the
newest one that the tables know, in the later ones of onnx: values as the case expects them, refusals as errors (in
other words, and of no later version).
"""

import functools
import math
from collections.abc import Iterator

import onnx.defs
import pytest

from .harness import driver, schemas
from .harness.case import BoundCase
from .harness.check import MAX_HOST_ELEMS, host_problem
from .harness.families import all_cases
from .harness.inputs import shape_of

# What src/graph/shape/host_operator.cc offers, in every version from opset 7's on.
OPERATORS = (
    "Abs", "Add", "And", "Cast", "Ceil", "Concat", "ConstantOfShape", "Div", "Equal", "Expand", "Floor", "Gather",
    "Greater", "GreaterOrEqual", "Identity", "Less", "LessOrEqual", "Max", "Min", "Mod", "Mul", "Neg", "Not", "Or",
    "Pow", "Range", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum", "Reshape", "Round", "Shape", "Sign", "Size",
    "Slice", "Split", "Sqrt", "Squeeze", "Sub", "Tile", "Transpose", "Unsqueeze", "Where",
)  # fmt: skip
TYPES = frozenset({"int64", "int32", "bool", "float32", "float64"})
_OLDEST_OPSET = 7
# Wrong values that the device cannot report; it gives zeros.
_ERRORS_HERE_ALONE = {
    "gather/Gather-13-float32-outside": "index 3 is outside",
    "gather/Gather-13-float64-outside": "index 3 is outside",
    "gather/Gather-13-float32-of_nothing": "index 0 is outside",
}


@functools.cache
def _versions(op: str) -> list[int]:
    """All schema versions of onnx that a model of opset 7 or newer can hold."""
    known = sorted(s.since_version for s in onnx.defs.get_all_schemas_with_history() if (s.domain, s.name) == ("", op))
    first = max((version for version in known if version <= _OLDEST_OPSET), default=known[0])
    return [version for version in known if version >= first]


def _fits(bound: BoundCase) -> bool:
    """Whether the host has the types of the case, and it is small."""
    inputs = [spec for spec in bound.case.inputs if spec is not None]
    if any(math.prod(shape_of(spec)) > MAX_HOST_ELEMS for spec in inputs):
        return False
    if bound.case.op in ("Shape", "Size"):
        return True
    types = {bound.input_type(index) for index in range(len(bound.case.inputs))} - {""}
    return types <= TYPES and (bound.case.error is not None or set(bound.output_types()) - {""} <= TYPES)


@functools.cache
def _cases(op: str) -> tuple[BoundCase, ...]:
    return tuple(b for b in all_cases().values() if (b.case.domain, b.case.op) == ("", op) and _fits(b))


def _runs(op: str) -> Iterator[tuple[BoundCase, int]]:
    """Each case with the versions that it runs in."""
    newest = schemas.versions("", op)[-1]
    later = [version for version in _versions(op) if version > newest]
    for bound in _cases(op):
        for version in [
            bound.schema.since,
            *(later if bound.schema.since == newest and bound.case.error is None else []),
        ]:
            if version in _versions(op):
                yield bound, version


@pytest.mark.parametrize("op", OPERATORS)
def test_cases(op: str) -> None:
    problems = []
    for bound, version in _runs(op):
        problem = host_problem(bound, version)
        own = _ERRORS_HERE_ALONE.get(bound.id)
        if problem is not None if own is None else own not in str(problem):
            problems.append(f"{bound.id} as version {version}: {problem}")
    assert not problems, f"{len(problems)} problems:\n" + "\n".join(problems[:20])


@pytest.mark.parametrize("op", OPERATORS)
def test_every_version_has_a_case(op: str) -> None:
    reached = {version for bound, version in _runs(op) if bound.case.error is None}
    assert reached == {*_versions(op)}


@pytest.mark.parametrize("op", OPERATORS)
def test_every_type_has_a_case(op: str) -> None:
    values = {"Where": 1}.get(op, 0)  # the input that gives the type
    formal = schemas.schema("", op).input(values)
    assert formal is not None
    reached = {bound.input_type(values) for bound in _cases(op) if bound.case.error is None}
    assert reached >= schemas.schema("", op).allowed(formal) & TYPES


def test_others_are_refused() -> None:
    """No operator is offered that is not in the list, so that none goes untested."""
    library = driver.load()
    offered = set()
    for name in {s.name for s in onnx.defs.get_all_schemas_with_history() if s.domain == ""}:
        spec = driver.NodeSpec("", name, onnx.defs.get_schema(name).since_version, {}, [], [], ["int64"],
                               frozenset(), {})  # fmt: skip
        if library.run_on_host(spec).code != "NOT_SUPPORTED":
            offered.add(name)
    assert offered == {*OPERATORS}
