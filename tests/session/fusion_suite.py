"""What the host's optimisers make of models for a provider of our name has a kernel of ours, on every supported host.

    python -m tests.session.fusion_suite LIBRARY

One check for each pattern of `fusion_models`: a session with every optimiser on is made, no node is on the CPU, and the
results are those of the CPU provider without optimisers. On hosts from NEWEST on the pattern must also become what it
is there for; a pattern that no optimiser takes would show nothing.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort

from tests.session.fusion_models import PATTERNS, Pattern
from tests.session.suite import add_provider, run_checks, session_options

NEWEST = (1, 31)


def _reference(model: bytes, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    options = session_options()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return list(ort.InferenceSession(model, options, providers=["CPUExecutionProvider"]).run(None, feeds))


def _optimized(pattern: Pattern, model: bytes, feeds: dict[str, np.ndarray]) -> tuple[list[np.ndarray], list[str]]:
    """Results, and the operators of the optimised model."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "optimized.onnx"
        options = session_options()
        options.log_severity_level = 3
        options.optimized_model_filepath = str(path)
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        for key, value in pattern.entries:
            options.add_session_config_entry(key, value)
        add_provider(options, {"compiled_regions": "0"})  # which the host does not save
        session = ort.InferenceSession(model, options, enable_fallback=0)
        session.disable_fallback()
        nodes = [node.op_type for node in onnx.load(path, load_external_data=False).graph.node]
        return list(session.run(None, feeds)), nodes


def _check(pattern: Pattern) -> None:
    graph = pattern.graph()
    model = graph.model()
    found, nodes = _optimized(pattern, model, graph.feeds)
    for actual, expected in zip(found, _reference(model, graph.feeds), strict=True):
        assert actual.dtype == expected.dtype
        np.testing.assert_allclose(
            actual.astype(np.float64), expected.astype(np.float64), rtol=pattern.tolerance, atol=pattern.tolerance
        )
    version = tuple(int(part) for part in ort.__version__.split(".")[:2])
    assert version < NEWEST or pattern.becomes in nodes, f"the host made {nodes} of it"


def _named(pattern: Pattern) -> Callable[[], None]:
    return lambda: _check(pattern)


for _pattern in PATTERNS:
    globals()[f"check_{_pattern.name.replace(' ', '_')}"] = _named(_pattern)


if __name__ == "__main__":
    run_checks(globals())
