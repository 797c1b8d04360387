"""nn.EmbeddingBag as the exporters of PyTorch write it: a Loop over bags, in ONNX's text form."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx.parser

WORDS, WIDTH = 20, 8
_CODES = {"float": 1, "float16": 10, "double": 11}

_REDUCTIONS = {
    "sum": "r = ReduceSum(part, axis)",
    "max": "r = ReduceMax(part, axis)",
    # The last bag's is over what indices has behind its start.
    "mean": """before = Sub(bags, one)
               is_last = Equal(i, before)
               r = If(is_last) <
                 then_branch = last () => (TYPE[p,q] r_last) {
                   total = ReduceSum(part, axis)
                   length = Shape<start = 0, end = 1>(indices)
                   wide_start = Cast<to = 7>(start)
                   rest = Sub(length, wide_start)
                   none = CastLike(zero, rest)
                   some = Greater(rest, none)
                   r_last = If(some) <
                     then_branch = over () => (TYPE[p,q] r_over) {
                       divisor = Cast<to = CODE>(rest)
                       r_over = Div(total, divisor)
                     },
                     else_branch = whole () => (TYPE[p,q] r_whole) { r_whole = Identity(total) }>
                 },
                 else_branch = usual () => (TYPE[p,q] r_usual) { r_usual = ReduceMean(part, axis) }>""",
}

_LOOP = """counterNTH, piecesNTH = Loop("", goes, zero, empty) <body = body (
    int64 iter, bool c, int64 i, seq(TYPE[p,q]) pieces_in
    ) => (bool goes_on, int64 next, seq(TYPE[p,q]) pieces_out) {
      at = Reshape(i, neg)
      step = CastLike(one, at)
      after = Add(at, step)
      start = Slice(bounds, at, after)
      step_2 = CastLike(two, at)
      after_2 = Add(at, step_2)
      end = Slice(bounds, after, after_2)
      is_empty = Equal(start, end)
      piece = If(is_empty) <
        then_branch = nothing () => (TYPE[1,WIDTH] zeros) <TYPE[1,WIDTH] zeros = {ZEROS}> {},
        else_branch = something () => (TYPE[p,q] r) {
          part = Slice(rows, start, end)
          REDUCE
        }>
      pieces_out = SequenceInsert(pieces_in, piece)
      step_3 = CastLike(one, i)
      next = Add(i, step_3)
      goes_on = Less(next, bags)
    }>
  joinedNTH = ConcatFromSequence<axis = 0>(piecesNTH)"""

_TORCHLIB = """<ir_version: 10, opset_import: ["": 20]>
g (TYPE[WORDS,WIDTH] table, INDEX[n] indices, INDEX[b] offsets WEIGHTS_IN) => (TYPE[m,WIDTH] y)
<int64[1] neg = {-1}, int64[1] ones = {1}, int64[1] axis = {0}, int64 zero = {0}, int64 one = {1}, int64 two = {2},
 TYPE[1] unit = {1}>
{
  flat = Reshape(indices, neg)
  looked = Gather(table, flat)
  WEIGHTS
  column = Unsqueeze(weights, ones)
  rows = Mul(looked, column)
  size = Shape(flat)
  end_offset = Cast<to = INDEX_CODE>(size)
  BOUNDS
  empty = SequenceEmpty<dtype = CODE>()
  goes = Less(zero, bags)
  LOOPS
  y = Relu(joined)
}"""

_TORCHSCRIPT = """<ir_version: 8, opset_import: ["": 17]>
g (TYPE[WORDS,WIDTH] table, INDEX[n] indices, INDEX[b] offsets WEIGHTS_IN) => (TYPE[m,WIDTH] y)
<int64[1] axis = {0}, int64[1] ones = {1}, int64[1] most = {9223372036854775807}, int64 zero = {0}, bool yes = {1}>
{
  BOUNDS
  ends = Slice(bounds, ones, most, axis, ones)
  shape = Shape(ends)
  bags = Gather(shape, zero)
  pieces = Loop(bags, yes) <body = body (int64 i, bool c) => (bool goes_on, TYPE[q] piece) {
      start = Gather<axis = 0>(bounds, i)
      end = Gather<axis = 0>(ends, i)
      starts_1 = Unsqueeze(start, axis)
      ends_1 = Unsqueeze(end, axis)
      taken = Slice(indices, starts_1, ends_1, axis)
      looked = Gather<axis = 0>(table, taken)
      WEIGHTED
      REDUCE
      goes_on = Cast<to = 9>(yes)
    }>
  y = Relu(pieces)
}"""


def _model(text: str, words: Mapping[str, str], edits: Mapping[str, str]) -> bytes:
    for name, word in words.items():
        text = text.replace(name, word)
    for before, after in edits.items():
        assert before in text, before
        text = text.replace(before, after)
    return bytes(onnx.parser.parse_model(text).SerializeToString())


def torchlib(reduction: str = "sum", dtype: str = "float", index: str = "int64", weighted: bool = False,
             last_given: bool = False, twice: bool = False,
             edits: Mapping[str, str] | None = None) -> bytes:  # fmt: skip
    """By torch.onnx.export(dynamo=True).

    `last_given`: include_last_offset; `twice`: two Loops, which begin with one empty sequence; `edits` replace text.
    """
    words = {
        "LOOPS": " ".join(_LOOP.replace("NTH", nth) for nth in (("", "_2") if twice else ("",))),
        "BOUNDS": "all = Size(offsets) bags = Sub(all, one) bounds = Identity(offsets)"
        if last_given
        else "bags = Size(offsets) bounds = Concat<axis = 0>(offsets, end_offset)",
        "WEIGHTS_IN": f", {dtype}[n] weights" if weighted else "",
        "WEIGHTS": "" if weighted else "like = Shape(indices) weights = Expand(unit, like)",
        "REDUCE": _REDUCTIONS[reduction],
    }
    return _model(_TORCHLIB, words | _types(dtype, index), edits or {})


def torchscript(reduction: str = "sum", dtype: str = "float", index: str = "int64", weighted: bool = False,
                last_given: bool = False, edits: Mapping[str, str] | None = None) -> bytes:  # fmt: skip
    """By the exporter without dynamo."""
    op = {"sum": "Sum", "mean": "Mean", "max": "Max"}[reduction]
    reduce = "ReduceSum<keepdims = 0>(rows, axis)" if op == "Sum" else f"Reduce{op}<axes = [0], keepdims = 0>(rows)"
    weights = "some = Slice(weights, starts_1, ends_1, axis) column = Unsqueeze(some, ones) rows = Mul(looked, column)"
    words = {
        "BOUNDS": "bounds = Identity(offsets)"
        if last_given
        else "size = Shape(indices) last = Cast<to = INDEX_CODE>(size) bounds = Concat<axis = 0>(offsets, last)",
        "WEIGHTS_IN": f", {dtype}[n] weights" if weighted else "",
        "WEIGHTED": weights if weighted else "rows = Identity(looked)",
        "REDUCE": f"piece = {reduce}",
    }
    return _model(_TORCHSCRIPT, words | _types(dtype, index), edits or {})


def _types(dtype: str, index: str) -> dict[str, str]:
    codes = {"INDEX_CODE": "7" if index == "int64" else "6", "CODE": str(_CODES[dtype])}
    sizes = {"WORDS": str(WORDS), "WIDTH": str(WIDTH), "ZEROS": ",".join(["0"] * WIDTH)}
    return codes | sizes | {"TYPE": dtype, "INDEX": index}


def feed(sizes: list[int], dtype: str = "float", index: str = "int64", weighted: bool = False,
         last_given: bool = False) -> dict[str, np.ndarray]:  # fmt: skip
    """Bags of these sizes."""
    rng = np.random.default_rng(len(sizes))
    kind = {"float": np.float32, "float16": np.float16, "double": np.float64}[dtype]
    bounds = np.concatenate([[0], np.cumsum(sizes)]).astype(index)
    made = {
        "table": rng.standard_normal((WORDS, WIDTH)).astype(kind),
        "indices": rng.integers(-WORDS, WORDS, bounds[-1]).astype(index),
        "offsets": bounds if last_given else bounds[:-1],
    }
    if weighted:
        made["weights"] = rng.uniform(0.5, 2, bounds[-1]).astype(kind)
    return made
