"""Runs a case on the plug-in and on the other implementations, and says what came of it.

Judges, in the order they are asked: the host's CPU provider on the model as it is; the CPU provider and ONNX's
reference on the model in float64; the CPU provider in float32; the reference on the model as it is.
Where none of them is exact, the spec gives a formula, which is asked before those in float64.
A result that agrees with one of them is right: each of them has defects.

How exact: tests/op/harness/tolerances.py. What the terms of a sum may lose is not known here; instead a result may be
off by what the operator makes of inputs that are off by some units in their last place, each up or down at random. That
covers sums that cancel and functions that strain their argument, and is nothing where an operator only moves values.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx.reference import ReferenceEvaluator

from tests.op.harness.compare import difference
from tests.op.harness.dtypes import FLOATS, is_float, name_of
from tests.op.harness.tolerances import Tolerance, tolerance_of
from tests.session import host

from .model import Feeds, OpCase, perturbed, widened, widened_feeds

NOT_PLACED = "fallback to CPU EP has been explicitly disabled"
_STRAIN_TERMS = 16.0  # epsilons of every input
_STEPS = {"float64": 2.0**-20, "float32": 2.0**-10}

Results = list[np.ndarray]


@dataclass(frozen=True)
class Verdict:
    """What came of a case; `judge` is who was right with us."""

    outcome: str
    detail: str = ""
    judge: str = ""


class Judge:
    """Another implementation on one form of a case's model."""

    def __init__(self, name: str, case: OpCase, make: Callable[[onnx.ModelProto], Callable[[Feeds], Results]],
                 types: tuple[str, ...] = (), target: str = "") -> None:  # fmt: skip
        self.name, self._case, self._types, self._target = name, case, types, target
        model, self._more = widened(case, types, target) if target else (case.model, {})
        self._run = make(model)

    def run(self, feeds: Feeds) -> Results:
        """Its results."""
        return self._run(self._wide(feeds))

    def strain(self, feeds: Feeds, exact: Results) -> list[np.ndarray | float]:
        """For each output what a relative error of the inputs becomes in it, in units of that error."""
        if not self._target:
            return [0.0] * len(exact)
        step, total = _STEPS[self._target], [np.zeros(array.shape) for array in exact]
        wide, kept = self._wide(feeds), {f"x{index}" for index in self._case.node.keep}
        for name in (name for name, array in wide.items() if array.dtype == self._target and name not in kept):
            moved = [self._run(perturbed(wide, name, step, seed)) for seed in range(2)]
            for index, array in enumerate(exact):
                total[index] += np.maximum(*(_change(other[index], array) / step for other in moved))
        return [*total]

    def _wide(self, feeds: Feeds) -> Feeds:
        wide = widened_feeds(self._case, feeds, self._types, self._target) if self._target else feeds
        return {**wide, **self._more}


def _change(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """By how much a result moved; 0 where it has no size."""
    if a.shape != b.shape or not is_float(name_of(b)):
        return np.zeros(b.shape)
    with np.errstate(all="ignore"):
        change = np.abs(a.astype(np.float64) - b.astype(np.float64))
    return np.where(np.isfinite(change), change, 0.0)


def on_cpu(model: onnx.ModelProto) -> Callable[[Feeds], Results]:
    """The host's CPU provider. Raises when it cannot load the model."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return lambda feeds: host.run(session, feeds)


def on_reference(model: onnx.ModelProto) -> Callable[[Feeds], Results]:
    """ONNX's reference implementation."""
    evaluator = ReferenceEvaluator(model)

    def run(feeds: Feeds) -> Results:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return [np.asarray(value) for value in evaluator.run(None, dict(feeds))]

    return run


def by_formula(case: OpCase) -> Callable[[Feeds], Results]:
    """The function that the spec gives with the node."""
    formula, inputs = case.node.formula, case.node.inputs
    assert formula is not None

    def run(feeds: Feeds) -> Results:
        values = [feeds.get(f"x{index}", array) for index, array in enumerate(inputs)]
        with np.errstate(all="ignore"):
            made = formula(*values, **case.node.attrs)
        results = made if isinstance(made, tuple) else (made,)
        return [np.asarray(one) for one, used in zip(results, case.node.outputs, strict=False) if used]

    return run


def on_plugin(case: OpCase, *, fall_back: bool = False) -> Callable[[Feeds], Results]:
    """The plug-in. Raises with NOT_PLACED where the node is not on it, unless it may `fall_back`."""
    session = host.open_session(
        case.model.SerializeToString(),
        host.EXACT | ({"deterministic_compute": "1"} if case.deterministic else {}),
        all_ours=not fall_back,
    )
    return lambda feeds: host.run(session, feeds)


def judge(case: OpCase, ours: Callable[[OpCase], Callable[[Feeds], Results]] = on_plugin) -> Verdict:
    """What comes of a case on `ours`. Its feeds are run in turn, and the first of them once more."""
    try:
        run = ours(case)
    except Exception as error:
        if NOT_PLACED in str(error):
            return Verdict("elsewhere")
        return Verdict("refused", line(error)) if _loads(case) else Verdict("unloadable", line(error))
    judges = _Judges(case)
    verdict, results = Verdict("unjudged"), list[Results]()
    for feeds in [*case.feeds, case.feeds[0]]:
        try:
            got: Results | Exception = run(feeds)
        except Exception as error:
            got = error
        if len(results) == len(case.feeds) and not isinstance(got, Exception):
            if _identical(got, results[0]):
                continue
            if case.deterministic:
                return Verdict("wrong", "the first feeds again give other bits, under deterministic_compute")
        verdict = _judge_feed(case, judges, feeds, got)
        if verdict.outcome != "right":
            again = " (the first feeds again)" if len(results) == len(case.feeds) else ""
            return replace(verdict, detail=f"feeds {len(results) % len(case.feeds)}{again}: {verdict.detail}")
        results.append([] if isinstance(got, Exception) else got)
    return verdict


def _judge_feed(case: OpCase, judges: _Judges, feeds: Feeds, got: Results | Exception) -> Verdict:
    texts = []
    on_host = ""
    for one in judges:
        try:
            wanted = one.run(feeds)
        except Exception as error:
            texts.append(f"{one.name}: fails: {line(error)}")
            on_host = on_host or (texts[-1] if one.name == "cpu" else "")
            continue
        if isinstance(got, Exception):  # what the CPU provider refuses at Run as well is no valid node
            return Verdict("both fail" if on_host else "error", f"{line(got)}; {on_host}")
        found = _differences(case, one, feeds, got, wanted)
        if not found:
            return Verdict("right", judge=one.name)
        texts.append(f"{one.name}: {found}")
    if isinstance(got, Exception):
        return Verdict("both fail", line(got))
    return Verdict("wrong" if any(": fails: " not in text for text in texts) else "unjudged", " / ".join(texts))


def _differences(case: OpCase, one: Judge, feeds: Feeds, got: Results, wanted: Results) -> str:
    if len(got) != len(wanted):
        return f"{len(got)} outputs instead of {len(wanted)}"
    tolerances = [_tolerance(case, array) for array in got]
    texts = [difference(a, e, limit) for a, e, limit in zip(got, wanted, tolerances, strict=True)]
    if any(text and limit.terms for text, limit in zip(texts, tolerances, strict=True)):
        strains = [strain + case.node.scale for strain in one.strain(feeds, wanted)]
        texts = [
            difference(a, e, limit, strain if a.shape == e.shape else 0.0)
            for a, e, limit, strain in zip(got, wanted, tolerances, strains, strict=True)
        ]
    return "; ".join(f"output {index}: {' '.join(text.split())}" for index, text in enumerate(texts) if text)


def _tolerance(case: OpCase, array: np.ndarray) -> Tolerance:
    op = case.model.graph.node[0].op_type
    chosen = case.node.tolerance if case.node.tolerance and is_float(name_of(array)) else None
    limit = chosen or tolerance_of(op, name_of(array))
    return replace(limit, terms=max(limit.terms, _STRAIN_TERMS)) if limit.terms else limit


class _Judges:
    """Those that can load the case's model, each made when it is first asked for."""

    def __init__(self, case: OpCase) -> None:
        self._made: list[Judge] = []
        self._left = _judges(case)

    def __iter__(self) -> Iterator[Judge]:
        yield from self._made
        for one in self._left:
            self._made.append(one)
            yield one


def _judges(case: OpCase) -> Iterator[Judge]:
    own, formula = case.model.graph.node[0].domain == "", case.node.formula
    types = {name_of(array) for array in case.node.inputs if array is not None}
    floats = types & {*FLOATS} if case.node.widen else set()
    narrow = ("float16", "bfloat16", "float32", "float64")  # what has a type already becomes an input all the same
    forms: list[tuple[str, Any, tuple[str, ...], str]] = [("cpu", on_cpu, (), "")]
    if formula:
        forms.append(("formula", lambda _: by_formula(case), *((narrow, "float64") if floats else ((), ""))))
    if floats:
        forms.append(("cpu in float64", on_cpu, narrow, "float64"))
        if own:
            forms.append(("reference in float64", on_reference, narrow, "float64"))
        if "float64" not in floats:
            forms.append(("cpu in float32", on_cpu, narrow, "float32"))
    if own and not floats & {"float16", "bfloat16"}:
        forms.append(("reference", on_reference, (), ""))
    for name, make, from_, target in forms:
        try:
            one = Judge(name, case, make, from_, target)
        except Exception:  # not one of its types or versions
            continue
        yield one


def _loads(case: OpCase) -> bool:
    try:
        on_cpu(case.model)
    except Exception:
        return False
    return True


def _identical(a: Results, b: Results) -> bool:
    return len(a) == len(b) and all(
        x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes() for x, y in zip(a, b, strict=True)
    )


def line(error: Exception) -> str:
    """An error's text on one line."""
    return " ".join(str(error).split())[:400]
