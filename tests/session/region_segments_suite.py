"""Loops over bags of embeddings, which compiled regions run as one operator each.

python -m tests.session.region_segments_suite LIBRARY
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import numpy_helper

from tests.session import segment_models
from tests.session.region_support import APART
from tests.session.segment_models import feed, torchlib, torchscript
from tests.session.suite import error_of, logged, run_checks, session, session_options

# Bags that are empty, of one index, the last one empty; many of both.
SIZES = ([3, 0, 2, 7], [1], [4, 0], [0] * 9 + [2, 40] * 20)
TOLERANCE = {"float": 1e-6, "float16": 2e-3, "double": 1e-12}
FUSED = {"provider", "evaluated"}
# Before version 1.27 hosts give regions nothing that only the graph inside a Loop reads, and torchscript's tables and
# indices are such here.
GIVES_INNER_READS = tuple(map(int, ort.__version__.split(".")[:2])) >= (1, 27)
_SKIP = {"fusion_skip": "embedding_bag"}

Feeds = list[dict[str, np.ndarray]]
Report = dict[str, Any]


def reported(model: bytes, options: dict[str, str] | None = None) -> tuple[ort.InferenceSession, Report]:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        made = session(model, {**(options or {}), "placement_report": str(report)}, cpu_allowed=True)
        return made, json.loads(report.read_text(encoding="utf-8"))


def steps_of(report: Report) -> list[str]:
    return [step["op_type"] for region in report.get("regions", ()) for step in region["steps"]]


def placements(report: Report) -> set[str]:
    return {node["placement"] for graph in report["graphs"] for node in graph["nodes"]}


def agrees(model: bytes, feeds: Feeds, dtype: str = "float", twin: bool = True) -> Report:
    """With the CPU, and so does the model without the rewriting (`twin`)."""
    made, report = reported(model)
    settings = session_options()
    settings.log_severity_level = 4
    reference = ort.InferenceSession(model, settings, providers=["CPUExecutionProvider"])
    runs = [made, session(model, _SKIP, cpu_allowed=True)] if twin else [made]
    for given in [*feeds, *feeds]:
        (wanted,) = reference.run(None, given)
        for run in runs:
            (mine,) = run.run(None, given)
            assert mine.shape == wanted.shape and mine.dtype == wanted.dtype, (mine.shape, wanted.shape)
            np.testing.assert_allclose(mine.astype(np.float64), wanted, TOLERANCE[dtype], 4 * TOLERANCE[dtype])
    return report


OWN = (3.0, 5.0, 7.0, 11.0)


def check_bags_of_both_exporters() -> None:
    """Every reduction, type and form: the whole model in one region, as one operator of the provider's for a bag."""
    forms: tuple[dict[str, Any], ...] = ({}, {"weighted": True}, {"last_given": True}, {"dtype": "float16"})
    for make in (torchlib, torchscript) if GIVES_INNER_READS else (torchlib,):
        for form in (*forms, {"index": "int32"}) if make is torchlib else forms:
            for reduction in ("sum", "mean", "max"):
                twin = make is torchlib or reduction != "mean"  # the provider's mean of nothing is NaN by itself
                feeds = [feed(sizes, **form) for sizes in SIZES]
                report = agrees(make(reduction, **form), feeds, form.get("dtype", "float"), twin)
                assert steps_of(report).count("SegmentReduce") == 1, (make.__name__, reduction, form, report)
                assert "Gather" not in {*steps_of(report)} or make is torchscript, steps_of(report)
                assert placements(report) == FUSED and len(report["regions"]) == 1, (make.__name__, reduction, form)


def check_an_empty_sequence_for_several() -> None:
    """Exporters share it between all bags of a model. The host orders no copies between Loops that it runs itself."""
    model = torchlib("mean", twice=True, edits={"y = Relu(joined)": "y = Add(joined, joined_2)"})
    report = agrees(model, [feed(sizes) for sizes in SIZES], twin=False)
    assert steps_of(report).count("SegmentReduce") == 2 and placements(report) == FUSED, report


def check_constants_of_one_name_in_two_bodies() -> None:
    """Each Loop has its own table, which an If inside of it is the first to read."""
    own = f"float[{len(OWN)},1] own = {{{','.join(map(str, OWN))}}}"
    edits = {
        "pieces_out) {": f"pieces_out) <{own}> {{",
        "part = Slice(rows, start, end)": "taken = Slice(own, start, end) part = Identity(taken)",
        f"[1,{segment_models.WIDTH}] zeros": "[1,1] zeros",
        "zeros = {0,0,0,0,0,0,0,0}": "zeros = {0}",
        f"float[m,{segment_models.WIDTH}] y": "float[m,1] y",
        "y = Relu(joined)": "y = Sub(joined, joined_2)",
    }
    model = onnx.load_from_string(torchlib("sum", twice=True, edits=edits))
    second = [node for node in model.graph.node if node.op_type == "Loop"][1]
    (table,) = second.attribute[0].g.initializer
    table.CopyFrom(numpy_helper.from_array(np.square(OWN, dtype=np.float32)[:, None], table.name))
    for sizes in SIZES:
        report = agrees(model.SerializeToString(), [feed(sizes)], twin=False)
        assert steps_of(report).count("SegmentReduce") == 2, report


def check_sizes_that_the_model_states() -> None:
    """The host computes with them before it asks: the number of bags and the length of the list are constants."""
    edits = {"int64[n] indices": "int64[12] indices", "int64[b] offsets": "int64[4] offsets"}
    for reduction in ("sum", "mean", "max"):
        report = agrees(torchlib(reduction, edits=edits), [feed([3, 0, 2, 7])])
        assert "SegmentReduce" in steps_of(report) and placements(report) == FUSED, (reduction, report)


def check_odd_positions() -> None:
    """As Slice takes them: from the end, beyond it, ends before starts. The mean of nothing is 0, as on the CPU."""
    rng = np.random.default_rng(5)
    for make in (torchlib, torchscript) if GIVES_INNER_READS else (torchlib,):
        for reduction in ("sum", "mean", "max"):
            given = feed([0] * 11, last_given=True)
            given["indices"] = rng.integers(0, segment_models.WORDS, 17)
            given["offsets"] = np.array([-2, 5, 99, 0, -40, 3, 3, 1, -1, 17, -17, -17])
            report = agrees(make(reduction, last_given=True), [given], twin=reduction != "mean")
            assert "SegmentReduce" in steps_of(report)


def check_no_bags() -> None:
    """No rows, where the host concatenates an empty sequence only as an error."""
    given = feed([])
    for reduction in ("sum", "mean", "max"):
        made, _ = reported(torchlib(reduction))
        assert made.run(None, given)[0].shape == (0, segment_models.WIDTH)


def check_too_few_positions() -> None:
    """An error that names both numbers and the Loop."""
    made, report = reported(torchlib("sum", edits={"bags = Size(offsets)": "bags = Size(indices)"}))
    assert "SegmentReduce" in steps_of(report)
    text = error_of(lambda: made.run(None, feed([3, 4])))
    assert "7 segments begin and end in lists of [2]" in text and "Loop" in text, text


# What differs from torchlib's text, and what is said of it; "": nothing that is near.
TORCHLIB = {
    "goes_on = Less(next, bags)": ("goes_on = LessOrEqual(next, bags)", "does not go on while its counter is below"),
    "next = Add(i, step_3)": ("next = Add(i, two)", "not those between two"),
    "start = Slice(bounds, at, after)": (
        "far = Add(at, two) start = Slice(bounds, after, far)",
        "positions are not elements",
    ),
    "end = Slice(bounds, after, after_2)": (
        "end = Slice(bounds, after, after_2, axis, two_1)",
        "not those between two",
    ),
    "{0,0,0,0,0,0,0,0}": ("{1,0,0,0,0,0,0,0}", "what a segment gives depends on a condition"),
    "is_empty = Equal(start, end)": ("is_empty = Equal(start, start)", "what a segment gives depends on a condition"),
    "r = ReduceSum(part, axis)": ("r = ReduceSum(part, ones)", "along the first axis alone"),
    "part = Slice(rows, start, end)": ("cut = Slice(rows, start, end) part = Relu(cut)", "not those between two"),
    "y = Relu(joined)": (
        "held = SequenceInsert(empty, rows) one_more = SequenceAt(held, zero) y = Add(joined, one_more)",
        "others read the empty sequence",
    ),
    "joined = ConcatFromSequence<axis = 0>": ("joined = ConcatFromSequence<axis = 1>", "rows of one tensor"),
    "empty = SequenceEmpty<dtype = 1>()": (
        "none = SequenceEmpty<dtype = 1>() empty = SequenceInsert(none, rows)",
        "does not begin empty",
    ),
    "y = Relu(joined)\n": (
        "many = SequenceLength(pieces) some = Cast<to = 1>(many) y = Add(joined, some)\n",
        "is not read by one node",
    ),
    "goes_on = Less(next, bags)\n": ("moved = Sub(bags, i) goes_on = Less(next, moved)\n", "changes on the way"),
    "end = Slice(bounds, after, after_2)\n": (
        "far = Add(at, two) further = Add(after, two) end = Slice(bounds, far, further)\n",
        "where the next one starts",
    ),
    "r = ReduceSum": ("r = ReduceProd", ""),
    "SequenceInsert(pieces_in, piece)": ("SequenceInsert(pieces_in, piece, zero)", ""),
}
LAST_MEAN = {
    "before = Sub(bags, one)": "before = Sub(bags, two)",
    "some = Greater(rest, none)": "some = GreaterOrEqual(rest, none)",
    "rest = Sub(length, wide_start)": "rest = Sub(length, size)",
    "length = Shape<start = 0, end = 1>(indices)": "length = Shape<start = 0, end = 1>(rows)",
    "total = ReduceSum(part, axis)": "total = ReduceMax(part, axis)",
    "r_whole = Identity(total)": "r_whole = Neg(total)",
}
TORCHSCRIPT = {
    "goes_on = Cast<to = 9>(yes)": ("goes_on = Less(i, bags)", "a condition may end the Loop"),
    "start = Gather<axis = 0>(bounds, i)": ("start = Gather<axis = 0>(bounds, zero)", "not those between two"),
    "taken = Slice(indices, starts_1, ends_1, axis)": ("taken = Slice(indices, starts_1, ends_1, axis, two_1)",
                                                       "not those between two"),
    "Gather<axis = 0>(table, taken)": ("Gather<axis = 1>(turned, taken)", "not along the table's first axis"),
    "taken = Slice(indices, starts_1, ends_1, axis)\n": ("taken = Slice(squared, starts_1, ends_1, axis)\n",
                                                         "indices are not a list"),
    "looked = Gather<axis = 0>(table, taken)": ("looked = Slice(cube, starts_1, ends_1, axis)",
                                                "not those of a matrix"),
    "rows = Identity(looked)": ("rows = Mul(looked, looked)", "rows are changed before"),
    "piece = ReduceSum<keepdims = 0>(rows, axis)": ("piece = ReduceL1<axes = [0], keepdims = 0>(rows)", ""),
}  # fmt: skip


# Others would read what is not there, or never end.
UNRUNNABLE = ("goes_on", "next =", "y = Relu(joined)", "after_2)\n", "empty =")
TWO = {"int64[1] ones = {1}": "int64[1] ones = {1}, int64[1] two_1 = {2}"}
OTHERS = {
    "turned": "turned = Transpose(table)",
    "squared": "squared = Unsqueeze(indices, ones)",
    "cube": "cube = Unsqueeze(table, ones)",
}


def _differs(model: bytes, reason: str, dtype: str = "float", runs: bool = True, weighted: bool = False) -> None:
    """It is placed as without the rewriting, and `reason` is in log and report."""
    with logged("fusion embedding_bag left alone: ") as lines:
        ort.set_default_logger_severity(0)
        try:
            _, report = reported(model)
        finally:
            ort.set_default_logger_severity(2)
    _, apart = reported(model, _SKIP)
    missed = [note["reason"] for note in report.get("missed", ())]
    assert report["graphs"] == apart["graphs"] and "SegmentReduce" not in steps_of(report), reason
    assert bool(missed) == bool(reason) == bool(lines), (reason, missed, lines)
    assert not reason or (reason in missed[0] and reason in lines[0]), (reason, missed)
    assert "missed" not in apart
    if runs:
        agrees(model, [feed([3, 1, 2, 7], dtype, weighted=weighted)], dtype)


def check_what_differs_stays() -> None:
    """One predicate of each that does not hold."""
    for before, (after, reason) in TORCHLIB.items():
        edits = {before: after} | (TWO if "two_1" in after else {})
        runs = not any(text in before for text in UNRUNNABLE)
        _differs(torchlib("sum", edits=edits), reason, runs=runs)
    for before, after in LAST_MEAN.items():
        _differs(torchlib("mean", edits={before: after}), "the mean of the last segment", runs=False)
    usual = "r_usual = ReduceMean(part, axis)"
    other = """odd = Equal(i, one) r_usual = If(odd) <
      then_branch = first () => (float[p,q] r_first) { r_first = ReduceMax(part, axis) },
      else_branch = later () => (float[p,q] r_later) { r_later = ReduceMean(part, axis) }>"""
    _differs(torchlib("mean", edits={usual: other}), "what a segment gives depends on a condition", runs=False)
    for before, (after, reason) in TORCHSCRIPT.items():
        edits = {before: after} | (TWO if "two_1" in after else {})
        other = next((name for name in OTHERS if name in after), None)
        if other:  # of another rank
            edits |= {"pieces = Loop": f"{OTHERS[other]} pieces = Loop", "y = Relu": "y = Identity"}
        _differs(torchscript("sum", edits=edits), reason, runs=not other and "Less" not in after)
    edits = {"float[n] weights": "float[k] weights"}
    _differs(torchscript("sum", weighted=True, edits=edits), "weights are not one for each index", weighted=True)
    _differs(torchscript("max", dtype="double"), "rows are not of float32", "double")


def check_a_counter_that_is_read_behind_the_loop() -> None:
    """The Loop is needed for it."""
    edits = {"y = Relu(joined)": "times = Cast<to = 1>(counter) y = Add(joined, times)"}
    _differs(torchlib("sum", edits=edits), "its counter is read behind it")


def check_a_number_of_bags_from_data() -> None:
    """No region takes the Loop then, which is where it was."""
    model = torchlib("sum", edits={"bags = Size(offsets)": "bags = ReduceMax<keepdims = 0>(offsets)"})
    _differs(model, "no region takes it", runs=False)


def check_switches() -> None:
    """Without regions, without rewriting, and without this one, Loops are where they were."""
    model = torchlib("mean")
    apart = None
    for options in ({"fusion": "0"}, _SKIP, APART):
        made, report = reported(model, options)
        assert "SegmentReduce" not in steps_of(report) and "missed" not in report, options
        homes = [(graph["parent"], [(node["op_type"], node["placement"] == "unsupported") for node in graph["nodes"]])
                 for graph in report["graphs"]]  # fmt: skip
        assert apart is None or homes == apart, options
        apart = homes
        assert made.run(None, feed([2, 3]))[0].shape == (2, segment_models.WIDTH)
    assert any(op == ("SequenceInsert", True) for _, nodes in apart or () for op in nodes), apart


def check_all_compute_nodes() -> None:
    """The option holds where the Loop is an operator of ours, and names the sequences' nodes where it is not."""
    options = {"require_all_compute_nodes": "1"}
    model = torchlib("sum")
    assert session(model, options).run(None, feed([2, 3]))[0].shape == (2, segment_models.WIDTH)
    text = error_of(lambda: session(model, {**options, **_SKIP}, cpu_allowed=True))
    assert "SequenceInsert" in text, text


def check_an_older_host_and_inner_reads() -> None:
    """Where it gives a region less than the Loop needs, the Loop stays; another reader in the region is enough."""
    if GIVES_INNER_READS:
        return
    report = agrees(torchscript("sum"), [feed(sizes) for sizes in SIZES])
    assert "SegmentReduce" not in steps_of(report)
    assert "nobody else reads what it reads" in report["missed"][0]["reason"], report["missed"]
    edits = {"y = Relu(pieces)": "row = ReduceSum<keepdims = 0>(table, axis) seen = Cast<to = 1>(indices)"
             " all = ReduceSum<keepdims = 0>(seen, axis) both = Mul(row, all) y = Add(pieces, both)"}  # fmt: skip
    report = agrees(torchscript("sum", edits=edits), [feed(sizes) for sizes in SIZES])
    assert "SegmentReduce" in steps_of(report), report.get("missed")


if __name__ == "__main__":
    run_checks(globals())
