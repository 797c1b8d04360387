"""What the suites about compiled regions share: sessions with regions and without, and what was joined.

Both keep to the host's basic optimizations, since only single nodes get its fusions, and regions to the model's nodes
(`fusion=0`); then every bit is the same.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np
import onnxruntime as ort
from onnx import TensorProto

from tests.session.suite import EP, add_provider, session, session_options

DEVICE = ort.capi._pybind_state.OrtDevice(1, 0, 0x10DE, 0)
APART = {"compiled_regions": "0"}
BASIC = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
FLOATS: tuple[int, list[str | int]] = (TensorProto.FLOAT, ["n", "m"])
_RNG = np.random.default_rng(11)

Feed = dict[str, np.ndarray]


def values(*shape: int) -> np.ndarray:
    return _RNG.standard_normal(shape, dtype=np.float32)


def joined(model: bytes, options: dict[str, str] | None = None, cpu_allowed: bool = False) -> ort.InferenceSession:
    options = {"compiled_regions": "1", "fusion": "0", **(options or {})}
    return session(model, options, cpu_allowed, level=BASIC)


def agrees(model: bytes, feeds: list[Feed], options: dict[str, str] | None = None, cpu_allowed: bool = False) -> None:
    """The joined session gives, feed after feed, every bit of what the nodes give one by one."""
    apart = session(model, {**APART, **(options or {})}, cpu_allowed, level=BASIC)
    together = joined(model, options, cpu_allowed)
    for feed in [*feeds, *feeds]:
        for mine, other in zip(together.run(None, feed), apart.run(None, feed), strict=True):
            np.testing.assert_array_equal(mine, other)
    assert regions_of(model, feeds[0], cpu_allowed)[0], "nothing was joined"


def ran(model: bytes, feed: Feed, cpu_allowed: bool = False) -> dict[str, list[str]]:
    """Operator types that the host ran, by provider; a region is one node of a type that starts with the provider's."""
    settings = session_options()
    settings.graph_optimization_level = BASIC
    settings.enable_profiling = True
    with tempfile.TemporaryDirectory() as folder:
        settings.profile_file_prefix = str(Path(folder) / "profile")
        if not cpu_allowed:
            settings.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        add_provider(settings, {"compiled_regions": "1"})
        run = ort.InferenceSession(model, settings)
        run.run(None, feed)
        events = json.loads(Path(run.end_profiling()).read_text(encoding="utf-8"))
    found: dict[str, list[str]] = {}
    for event in events:
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
            found.setdefault(event["args"]["provider"], []).append(event["args"]["op_name"])
    return found


def regions_of(model: bytes, feed: Feed, cpu_allowed: bool = False) -> tuple[int, list[str]]:
    """How many regions ran, and which other nodes of ours."""
    ours = ran(model, feed, cpu_allowed).get(EP, [])
    return sum(op.startswith(EP) for op in ours), [op for op in ours if not op.startswith(EP)]
