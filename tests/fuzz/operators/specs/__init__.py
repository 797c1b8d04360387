"""What each operator of the registry may be given: one function, or one row of a family's table, an operator.

Every module has SPECS: (domain, operator) -> the function that draws a node. A spec draws what is valid by ONNX's
documentation; what it leaves out is left out with a reason.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable

from tests.op.harness import schemas

from ..draw import Draw, Node

Spec = Callable[[Draw], Node]

# Operators of the registry that stand in no model of one node, or that nobody else judges, with the reason.
LEFT_OUT = {
    ("", "If"): "a node of the host's, around graphs: tests/session/control_flow_suite.py",
    ("", "Loop"): "a node of the host's, around graphs: tests/session/control_flow_suite.py",
    ("", "Scan"): "a node of the host's, around graphs: tests/session/control_flow_suite.py",
    ("com.microsoft", "FusedConv"): "hosts make it of Conv, which has a spec: tests/op/cases/fused_conv.py",
    ("com.microsoft", "SwiGLU"): "hosts make it of gated layers: tests/op/cases/contrib_pointwise.py",
    ("", "MemcpyFromHost"): "the host's own copies stand in no model",
    ("", "MemcpyToHost"): "the host's own copies stand in no model",
    **{
        ("", op): "nobody draws the same numbers: tests/op/cases/random.py, tests/session/test_random.py"
        for op in ("Bernoulli", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
    },
}
LEFT_OUT_DOMAINS = {
    "com.ms.internal.nhwc": "no model has them; the host makes them from others",
    schemas.OWN_DOMAIN: "nobody else runs them, and they need other ranks: tests/session/collective_suite.py",
    schemas.FUSED_DOMAIN: "no model has them; compiled regions make them from others",
}


@functools.cache
def specs() -> dict[tuple[str, str], Spec]:
    """Every spec of every module."""
    found: dict[tuple[str, str], Spec] = {}
    for module in pkgutil.iter_modules(__path__):
        table = importlib.import_module(f"{__name__}.{module.name}").SPECS
        if twice := found.keys() & table.keys():
            raise ValueError(f"more than one spec of {sorted(twice)}")
        found.update(table)
    return found
