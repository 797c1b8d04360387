"""What is said of compiled regions: profiles, reports, budgets and errors of memory name the model's nodes.

    CUDAEP_SIM_DEVICES=2 python -m tests.session.beside_texts_suite PROBE

One check for each model and kind of text. PROBE is the test build of the plug-in.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnxruntime as ort

from tests.session.beside_models import CASES, Case
from tests.session.beside_suite import agree, took_part
from tests.session.beside_support import Neighbour, Opened, Values, fed, opened, turned
from tests.session.budget_support import Outcome, limit, saved
from tests.session.budget_support import opened as budgeted
from tests.session.stream_support import HOST, in_threads
from tests.session.suite import SkippedError, add_provider, on_one_host, run_checks, session_options

CODE_WORD = "[CUDAEP_OUT_OF_MEMORY]"
PATIENCE = 6  # requests in a row that the provider did without


# Of what passes put between the model's nodes, and of groups of very many nodes.
NO_NODE = re.compile(r"layout of '.*'|\d+ more nodes")
# Shape arithmetic and movement may be folded away; these may not.
COMPUTE = re.compile(r"(Conv|MatMul|Gemm|Softmax|LayerNormalization|MaxPool|Relu|Tanh|Sigmoid|Erf|Neg) node .*")


def labels(made: Opened) -> set[str]:
    """The nodes of regions as texts name them; the host has rewritten a few of the model's by then."""
    return {f"{node['op_type']} node '{node['name']}'" for node in made.nodes() if "region" in node}


def steps_of(made: Opened) -> list[dict[str, Any]]:
    return [step for region in made.regions() for step in region["steps"]]


def report(case: Case) -> None:
    """Every node of a region is in a step, or a rewriting says that it went."""
    made = opened(case, {}, regions=True)
    took_part(made, case)
    told = [step["nodes"] for step in steps_of(made)]
    told += [note["nodes"] for region in made.regions() for note in region["rewritten"]]
    named = {name for nodes in told for name in nodes if not NO_NODE.fullmatch(name)}
    assert any(len(nodes) > 1 for nodes in told) and named <= labels(made), named - labels(made)
    gone = {name for name in labels(made) - named if COMPUTE.fullmatch(name)}
    assert not gone, gone


def profile(case: Case) -> None:
    """The device's work is that of steps, each under the name of its node or under those of all of its nodes."""
    if HOST < (1, 25):
        raise SkippedError("the host has no profiler for providers")
    expected: set[str] = set()
    fused: set[str] = set()
    for step in steps_of(opened(case, {}, regions=True)):
        source = re.fullmatch(r"\w+ node '(.*)'", step["nodes"][0])
        if len(step["nodes"]) > 1:
            fused.add(f"{step['op_type']} of " + " + ".join(step["nodes"]))
        else:
            expected.add(source.group(1) if source else step["nodes"][0])
    settings = session_options()
    settings.enable_profiling = True
    with tempfile.TemporaryDirectory() as folder:
        settings.profile_file_prefix = str(Path(folder) / "profile")
        add_provider(settings, {"compiled_regions": "1"})
        created = ort.InferenceSession(case.model, settings, enable_fallback=0)
        in_threads(4, lambda thread: created.run(None, case.feeds[thread % len(case.feeds)]))
        events = json.loads(Path(created.end_profiling()).read_text(encoding="utf-8"))
    names = {event["args"].get("node_name") for event in events if event.get("cat") == "Kernel"} - {None}
    copies = {name for name in names if name.startswith("Memcpy")}
    assert fused <= names, fused - names
    assert names - copies <= expected | fused, names - copies - expected - fused


def charged(outcome: Outcome) -> dict[str, Any]:
    """What nodes cost that the budget has room for, shape arithmetic of regions among them."""
    homes = ("provider", "evaluated")
    return {node["name"]: node["cost"] for node in outcome.nodes if node["placement"] in homes and "cost" in node}


def budget(case: Case) -> None:
    """Regions have the nodes that fit, which are those that fit one by one; texts name the node that did not."""
    options = {"budget_dynamic_dim": "16"}
    with saved(case.model) as path:
        alone, joined = ([budgeted(path, limit(1 << 30), options=options | {"compiled_regions": on})] for on in "01")
        costs = alone[0].costs()
        for share in (0.5, 0.8):
            kilobytes = sum(costs[: int(len(costs) * share)]) // 1024 + 1
            for on, outcomes in (("0", alone), ("1", joined)):
                outcomes.append(budgeted(path, limit(kilobytes), options=options | {"compiled_regions": on}))
        assert len(joined[1].claimed) < len(joined[0].claimed), joined[1].budget
        for one, other in zip(joined, alone, strict=True):
            assert charged(one) == charged(other) and one.budget == other.budget, (one.budget, other.budget)
            assert any("region" in node for node in one.claimed), one.nodes
            for reason in (node["reason"] for node in one.nodes if node["placement"] == "budget"):
                assert re.match(r"costs .*; of the memory budget|the memory budget ended at \w+ node ", reason), reason
            found, expected = ([each.session.run(None, feed) for feed in case.feeds] for each in (one, other))
            agree(case, found, expected)


def out_of_memory(case: Case) -> None:
    """At every request: one error that names a node or a region, and afterwards the session works."""
    neighbour = Neighbour({})
    nodes = labels(opened(case, {}, regions=True))
    expected = fed(opened(case, {}, regions=False), case, neighbour)[: len(case.feeds)]
    outputs = expected
    harmless = failures = index = 0
    while harmless < PATIENCE:
        index += 1
        errors: list[str] = []
        try:
            made = opened(case, {"debug.fail_allocation": str(index)}, regions=True)
        except Exception as error:
            told_well(nodes, str(error))
            failures, harmless = failures + 1, 0
            continue
        for at, feed in enumerate(case.feeds):
            values = Values(made, feed, neighbour, -1, outputs[at])
            for by in (1, 0, 2, 0):
                try:
                    found = values(turned(feed, by))
                except Exception as error:
                    errors.append(str(error))
                    continue
                if by == 0:
                    agree(case, [found], [expected[at]])
        assert len(errors) <= 1, f"request {index}: {errors}"
        for text in errors:
            told_well(nodes, text)
        harmless = 0 if errors else harmless + 1
        failures += len(errors)
    assert failures >= 2, f"only {failures} requests failed"


def told_well(nodes: set[str], text: str) -> None:
    assert CODE_WORD in text, text
    copies = {f"{kind} node" for kind in ("MemcpyFromHost", "MemcpyToHost")}  # the host's, with kernels of ours
    named = [label for label in nodes | copies if label in text]
    assert named, f"no node is named: {text}"


KINDS: dict[str, Callable[[Case], None]] = {
    "report": report,
    "profile": profile,
    "budget": budget,
    "out_of_memory": out_of_memory,
}


def _check(case: str, kind: Callable[[Case], None]) -> Callable[[], None]:
    return on_one_host(lambda: kind(CASES[case]()))


for _kind, _text in KINDS.items():
    for _case in CASES:
        globals()[f"check_{_case}_{_kind}"] = _check(_case, _text)


if __name__ == "__main__":
    run_checks(globals())
