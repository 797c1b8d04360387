"""The parity report names what is missing, and nothing else."""

import parity
from parity import Kernel

from tests.op.harness.driver import Row

FLOATS = frozenset({"float32", "float16"})


def _row(op: str, since: int, until: int, types: dict[str, frozenset[str]]) -> Row:
    return Row("operator", "", op, since, until, types, (), (), (), ())


def test_an_operator_a_version_and_a_type_are_missed() -> None:
    theirs = [
        Kernel("", "Relu", 13, parity.NEWEST, {"T": FLOATS | {"float64"}}),
        Kernel("", "Gather", 1, 13, {"Tind": frozenset({"int32"})}),
        Kernel("", "Selu", 6, 22, {"T": FLOATS}),
    ]
    rows = [_row("Relu", 6, 14, {"T": FLOATS}), _row("Gather", 11, 13, {"Tind": frozenset({"int32", "int64"})})]
    assert parity.lacking(theirs, rows) == {
        "ai.onnx.Gather": ["version 1"],
        "ai.onnx.Relu": ["version 13, T: float64", "version 14, T: float64"],
        "ai.onnx.Selu": ["no kernel"],
    }
    assert parity.lacking(theirs[2:], [_row("Selu", 6, 22, {"T": FLOATS})]) == {}


def test_the_table_of_upstream_is_read() -> None:
    kernels = parity.from_table(parity.TABLE)
    assert len({(kernel.domain, kernel.op) for kernel in kernels}) == 256
    add = next(kernel for kernel in kernels if kernel.op == "Add" and kernel.since == 14)
    assert add.until == parity.NEWEST and {"bfloat16", "int8"} <= add.types["T"]


def test_the_host_is_asked_for_a_provider() -> None:
    assert any(
        kernel.op == "Relu" and "float32" in kernel.types["T"]
        for kernel in parity.from_host("CPUExecutionProvider", None)
    )
    assert parity.from_host("NoSuchProvider", None) == []
