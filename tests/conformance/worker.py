"""Runs node tests: numbers come on standard input, a JSON line for each goes to standard output.

    python -m tests.conformance.worker FOLDER_OF_CASES [REGISTRY_NAME PLUGIN]

A line has `number`, `outcome` and `detail`. Outcomes: "right", "near" (outside the tolerance, but no farther from what
is expected than the host's CPU provider), "wrong", "error" (a Run that failed), "unloadable" (the host refuses the
model, also without us), "unfed" (its Python interface cannot feed it), "refused" (there is no session with us, but one
without). For models that ran also `providers`: how many nodes each provider ran, and `elsewhere`: the operators of
those that were not on the plug-in.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

from tests.session import host

from . import node_cases, values
from .node_cases import NodeCase

_KERNEL = "_kernel_time"
# What draws numbers of its own: only types and shapes can be compared.
_RANDOM = {"Bernoulli", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}


def _options(folder: str) -> ort.SessionOptions:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_profiling = True
    options.profile_file_prefix = str(Path(folder) / "profile")
    return options


def _session(case: NodeCase, folder: str, *, ours: bool) -> ort.InferenceSession:
    options = _options(folder)
    if ours:
        options.add_provider_for_devices([host.devices()[0]], host.EXACT)
        return ort.InferenceSession(case.model, sess_options=options, enable_fallback=0)
    return ort.InferenceSession(case.model, sess_options=options, providers=["CPUExecutionProvider"])


def _placement(profile: str) -> tuple[Counter[str], Counter[str]]:
    events = json.loads(Path(profile).read_text())
    nodes = {
        (event["name"], event["args"].get("node_index")): (event["args"]["provider"], event["args"]["op_name"])
        for event in events
        if event.get("cat") == "Node" and event["name"].endswith(_KERNEL) and "provider" in event["args"]
    }
    providers = Counter(provider for provider, _ in nodes.values())
    return providers, Counter(op for provider, op in nodes.values() if provider != host.EP_NAME)


def run_case(case: NodeCase) -> dict[str, Any]:
    """Outcome of one case, without its number."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            session = _session(case, folder, ours=True)
        except Exception as error:
            try:
                _session(case, folder, ours=False)
            except Exception:
                return {"outcome": "unloadable", "detail": _line(error)}
            return {"outcome": "refused", "detail": _line(error)}
        names = [entry.name for entry in session.get_outputs()]
        differences, near = [], True
        for feeds, results in case.data_sets:
            try:
                inputs = [values.to_host(node_cases.parse(*feed), plain=_plain(feeds, results)) for feed in feeds]
                fed = {entry.name: value for entry, value in zip(session.get_inputs(), inputs, strict=True)}
            except Exception as error:
                return {"outcome": "unfed", "detail": _line(error)}
            try:
                found = _run(session, fed)
            except Exception as error:
                return {"outcome": "error", "detail": _line(error), **_where(session)}
            wanted = [values.to_numpy(node_cases.parse(*result)) for result in results]
            if not _RANDOM.isdisjoint(case.operators()):
                found, wanted = [_blank(value) for value in found], [_blank(value) for value in wanted]
            pairs = zip(names, found, wanted, strict=True)
            wrong = [
                f"{name}: {text}" for name, a, e in pairs if (text := values.difference(a, e, case.rtol, case.atol))
            ]
            differences += wrong
            near = near and (not wrong or _nearer(found, _on_cpu(case, folder, fed), wanted))
        outcome = "right" if not differences else "near" if near else "wrong"
        return {"outcome": outcome, "detail": "; ".join(differences), **_where(session)}


def _blank(value: Any) -> Any:
    """Zeros of a value's type and shape."""
    return np.zeros_like(value)


def _plain(feeds: list[tuple[str, bytes]], results: list[tuple[str, bytes]]) -> bool:
    """Whether a case must run on numpy's arrays and lists: OrtValues made from Python hold tensors."""
    return any(kind != "TensorProto" for kind, _ in feeds + results)


def _run(session: ort.InferenceSession, fed: dict[str, Any]) -> list[Any]:
    names = [entry.name for entry in session.get_outputs()]
    if fed and all(isinstance(value, ort.OrtValue) for value in fed.values()):
        return [values.from_host(value) for value in session.run_with_ort_values(names, fed)]
    return list(session.run(names, fed))


def _on_cpu(case: NodeCase, folder: str, fed: dict[str, Any]) -> list[Any] | None:
    """What the host's CPU provider makes of a case; None when it cannot."""
    try:
        return _run(_session(case, folder, ours=False), fed)
    except Exception:
        return None


def _nearer(found: list[Any], other: list[Any] | None, wanted: list[Any]) -> bool:
    """Whether `found`, of the wanted shapes and types, is no farther from the wanted values than `other`."""
    distance = _distance(found, wanted)
    return distance < float("inf") and distance <= _distance(other, wanted)


def _distance(found: list[Any] | None, wanted: list[Any]) -> float:
    """The largest difference; for values of another shape or type, infinite, and for none at all below any other."""
    if found is None:
        return -1.0
    try:
        if any(np.shape(a) != np.shape(e) or a.dtype != e.dtype for a, e in zip(found, wanted, strict=True)):
            return float("inf")
        pairs = [(np.asarray(a, np.float64), np.asarray(e, np.float64)) for a, e in zip(found, wanted, strict=True)]
        return max(float(np.max(np.abs(a - e), initial=0.0)) for a, e in pairs)
    except (TypeError, ValueError, AttributeError):
        return float("inf")


def _where(session: ort.InferenceSession) -> dict[str, Any]:
    providers, elsewhere = _placement(session.end_profiling())
    return {"providers": providers, "elsewhere": elsewhere}


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:400]


def main() -> None:
    """Runs the cases whose numbers come in."""
    cases = node_cases.load(Path(sys.argv[1]))
    host.devices()
    for line in sys.stdin:
        number = int(line)
        print(json.dumps({"number": number, **run_case(cases[number])}), flush=True)


if __name__ == "__main__":
    main()
