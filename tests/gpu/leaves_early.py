"""A process that exits while the library compiles a plan for it: `python -m tests.gpu.leaves_early LIBRARY WAY`.

WAY is what becomes of the session: `global` (the interpreter ends it) or `leaked` (nobody does, and one plan was made).
"""

from __future__ import annotations

import ctypes
import sys
import time

import numpy as np
from onnx import TensorProto

from tests.session.image_models import Images
from tests.session.region_support import joined
from tests.session.suite import register, statistics

WAYS = ("global", "leaked")


def network() -> bytes:
    """Convolutions of several problems, small enough that plans are compiled for all of them."""
    images = Images(1, channels=64, size=56)
    value = "x"
    for channels in (64, 72, 80, 88, 96, 64):
        value = images.add("Relu", [images.conv(value, channels)])
    return images.model([value], TensorProto.FLOAT16)


def main(library: str, way: str) -> None:
    """Leaves with plans in the making, and says so."""
    register(library)
    run = joined(network(), {"fusion": "1"})
    vars(sys.modules["__main__"])["session"] = run  # as in a script
    run.run(None, {"x": np.ones((1, 64, 56, 56), np.float16)})
    if way == "leaked":
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(run))
        begun, ends = statistics()["plans"]["in_background"], time.monotonic() + 60
        assert begun > 1, "it is too late already"
        while statistics()["plans"]["in_background"] == begun:
            assert time.monotonic() < ends, statistics()["plans"]
            time.sleep(0.01)
    print("in the making:", statistics()["plans"]["in_background"], flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
