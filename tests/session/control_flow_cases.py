"""Models with If, Loop and Scan in ONNX's text form, with inputs and what is expected of the placement."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx.parser

Feeds = dict[str, np.ndarray]


@dataclass(frozen=True)
class Case:
    """A graph in text form and the inputs of one or more Runs.

    `elsewhere` has the control-flow operators that are not on the provider, each with a part of the reason; an empty
    reason means that nothing is inside but what computes shapes.
    """

    graph: str
    runs: list[Feeds]
    opset: int = 17
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    expected: list[np.ndarray] | None = None  # of the only run, where the CPU provider cannot be asked

    def model(self) -> bytes:
        """The model as bytes."""
        header = f'<ir_version: 8, opset_import: ["": {self.opset}]>'
        return bytes(onnx.parser.parse_model(f"{header} g {self.graph}").SerializeToString())


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def scalar(value: object, dtype: type = np.int64) -> np.ndarray:
    return np.array(value, dtype)


def _scan(
    attributes: str, x: np.ndarray, opset: int = 11, rank: int = 3, expected: list[np.ndarray] | None = None
) -> Case:
    """A running sum over slices of x, whose scan output has each slice's sum with the state before it."""
    dims, slice_dims = ",".join("abc"[:rank]), ",".join("pq"[: rank - 1])
    state_shape = [size for axis, size in enumerate(x.shape) if axis != _axis_of(attributes) % rank]
    graph = f"""(float[{slice_dims}] start, float[{dims}] x) => (float[{slice_dims}] end, float[{dims.upper()}] sums) {{
      end, sums = Scan <num_scan_inputs = 1, {attributes} body = b (float[{slice_dims}] s, float[{slice_dims}] v)
        => (float[{slice_dims}] t, float[{slice_dims}] o) {{ t = Add(s, v)  o = Mul(t, v) }}> (start, x)
    }}"""
    return Case(graph, [{"start": floats(*state_shape, seed=1), "x": x}], opset, expected=expected)


def _axis_of(attributes: str) -> int:
    marker = "scan_input_axes = ["
    return int(attributes.split(marker)[1].split("]")[0]) if marker in attributes else 0


_BRANCHES = """(bool c, float[n] x, float[n] z) => (float[m] y) {
  s = Add(x, z)
  r = If (c) <then_branch = t () => (float[p] a) { a = Concat <axis = 0> (s, x) },
              else_branch = e () => (float[q] b) { b = Mul(s, z) }>
  y = Neg(r)
}"""
_XZ = {"x": floats(5), "z": floats(5, seed=1)}
_LOOP = """(int64 m, bool c, float[n] x, float[n] b) => (float[n] y, float[k, n] s) {
  start = Mul(x, b)
  y, s = Loop (m, c, start) <body = l (int64 i, bool c_in, float[n] v) => (bool c_out, float[n] w, float[n] o) {
    c_out = Identity(c_in)  w = Add(v, b)  o = Mul(w, v)
  }>
}"""
_LOOP_RUNS = [
    {"m": scalar(m), "c": scalar(c, np.bool_), "x": floats(n), "b": floats(n, seed=1)}
    for m, c, n in (
        (3, True, 4),
        (1, True, 4),
        (0, True, 4),
        (7, False, 4),
        (150, True, 3),
        (65, True, 1),
        (2, True, 0),
    )
]
_LOOP_11 = _LOOP.replace("Identity(c_in)", "Cast <to = 9> (c_in)")

CASES: dict[str, Case] = {
    **{
        f"if_{opset}": Case(_BRANCHES, [{"c": scalar(c, np.bool_), **_XZ} for c in (True, False)], opset)
        for opset in (10, 11, 13, 16, 19, 21)
    },
    **{
        f"loop_{opset}": Case(_LOOP if opset > 11 else _LOOP_11, _LOOP_RUNS, opset)
        for opset in (10, 11, 13, 16, 19, 21)
    },
    "if_on_a_computed_condition": Case(
        """(float[n] x) => (float[n] y) {
          largest = ReduceMax <keepdims = 0> (x)  zero = Constant <value_float = 0.0> ()  c = Greater(largest, zero)
          y = If (c) <then_branch = t () => (float[n] a) { a = Exp(x) },
                      else_branch = e () => (float[n] b) { b = Neg(x) }>
        }""",
        [{"x": np.abs(floats(5))}, {"x": -np.abs(floats(5))}],
    ),
    "if_of_several_types": Case(
        """(bool c, float[n] x, int64[2] k) => (float16[n] y, int64[2] z, bool[n] w) {
          y, z, w = If (c) <
            then_branch = t () => (float16[n] a, int64[2] d, bool[n] f) {
              a = Cast <to = 10> (x)  d = Add(k, k)  f = Cast <to = 9> (x) },
            else_branch = e () => (float16[n] b, int64[2] g, bool[n] h) {
              n = Neg(x)  b = Cast <to = 10> (n)  g = Mul(k, k)  u = Cast <to = 9> (x)  h = Not(u) }>
        }""",
        [{"c": scalar(c, np.bool_), "x": floats(5), "k": np.array([3, 4])} for c in (True, False)],
    ),
    "if_within_if_reads_two_scopes": Case(
        """(bool c, bool d, float[n] x) => (float[n] y) {
          s = Exp(x)
          y = If (c) <
            then_branch = t () => (float[n] a) {
              u = Neg(s)
              a = If (d) <then_branch = yes () => (float[n] p) { p = Add(u, s) },
                          else_branch = no () => (float[n] q) { q = Mul(u, x) }> },
            else_branch = e () => (float[n] b) { b = Add(x, s) }>
        }""",
        [{"c": scalar(c, np.bool_), "d": scalar(d, np.bool_), "x": floats(5)} for c in (0, 1) for d in (0, 1)],
    ),
    "loop_without_a_trip_count": Case(
        """(float[n] x, float limit) => (float[n] y, float[k] sums) {
          one = Constant <value_int = 1> ()  go = Cast <to = 9> (one)
          y, sums = Loop (, go, x) <body = l (int64 i, bool c_in, float[n] v) => (bool c, float[n] w, float o) {
            w = Add(v, v)  o = ReduceSum <keepdims = 0> (w)  c = Less(o, limit)
          }>
        }""",
        [{"x": np.abs(floats(5)), "limit": scalar(1e4, np.float32)}],
    ),
    "loop_that_ends_by_its_iteration": Case(
        """(float[n] x) => (float[n] y) {
          y = Loop (, , x) <body = l (int64 i, bool c_in, float[n] v) => (bool c, float[n] w) {
            last = Constant <value_int = 9> ()  c = Less(i, last)  f = Cast <to = 1> (i)  w = Add(v, f)
          }>
        }""",
        [{"x": floats(5)}],
    ),
    "loop_whose_value_grows": Case(
        """(int64 m, float[n] x) => (float[p] y) {
          y = Loop (m, , x) <body = l (int64 i, bool c_in, float[q] v) => (bool c, float[r] w) {
            c = Identity(c_in)  n = Neg(v)  w = Concat <axis = 0> (v, n, x)
          }>
        }""",
        [{"m": scalar(m), "x": floats(3)} for m in (0, 1, 6)],
    ),
    "loop_within_loop": Case(
        """(int64 m, float[n] x) => (float[n] y, float[k, l, n] s) {
          y, s = Loop (m, , x) <body = l (int64 i, bool c_in, float[n] v) => (bool c, float[n] w, float[a, n] o) {
            c = Identity(c_in)  two = Constant <value_int = 2> ()
            w, o = Loop (two, , v) <body = ll (int64 j, bool d_in, float[n] p) => (bool d, float[n] q, float[n] r) {
              d = Identity(d_in)  q = Add(p, x)  r = Mul(q, v)
            }>
          }>
        }""",
        [{"m": scalar(m), "x": floats(3)} for m in (1, 4)],
    ),
    "loop_around_if_on_its_iteration": Case(
        """(int64 m, float[n] x) => (float[n] y) {
          y = Loop (m, , x) <body = l (int64 i, bool c_in, float[n] v) => (bool c, float[n] w) {
            c = Identity(c_in)  two = Constant <value_int = 2> ()  r = Mod(i, two)  odd = Cast <to = 9> (r)
            w = If (odd) <then_branch = t () => (float[n] a) { a = Add(v, x) },
                          else_branch = e () => (float[n] b) { b = Mul(v, x) }>
          }>
        }""",
        [{"m": scalar(5), "x": floats(3)}],
    ),
    "loop_that_gathers_by_its_iteration": Case(
        """(float[k, n] x) => (float[n] y, float[j, n] s) {
          start = Constant <value_floats = [0.0, 0.0, 0.0]> ()  dims = Shape <start = 0, end = 1> (x)  m = Squeeze(dims)
          y, s = Loop (m, , start) <body = l (int64 i, bool c_in, float[n] v) => (bool c, float[n] w, float[n] o) {
            c = Identity(c_in)  row = Gather(x, i)  w = Add(v, row)  o = Identity(row)
          }>
        }""",
        [{"x": floats(k, 3)} for k in (4, 9)],
    ),
    "loop_with_a_node_on_the_cpu": Case(
        """(int64 m, float[n] x) => (float[n] y) {
          y = Loop (m, , x) <body = l (int64 i, bool c_in, float[n] v) => (bool c, float[n] w) {
            c = Identity(c_in)  d = Add(v, x)  t = Cast <to = 8> (d)  f = Cast <to = 1> (t)  w = Mul(f, v)
          }>
        }""",
        [{"m": scalar(4), "x": np.array([0.5, -0.25, 2], np.float32)}],
    ),
    "loop_of_strings": Case(
        """(int64 m, string[n] x, float[k] z) => (string[n] y, float[k] w) {
          y, w = Loop (m, , x, z) <body = l (int64 i, bool c_in, string[n] v, float[k] a)
            => (bool c, string[n] u, float[k] b) { c = Identity(c_in)  u = Identity(v)  b = Add(a, z) }>
        }""",
        [{"m": scalar(3), "x": np.array(["a", "bc"], object), "z": floats(4)}],
        elsewhere={"Loop": "input 2 is a tensor of string"},
    ),
    # The host's look at a kernel's types ends with the first of the carried values.
    "loop_of_numbers_and_strings": Case(
        """(int64 m, string[n] x, float[k] z) => (float[k] w, string[n] y) {
          w, y = Loop (m, , z, x) <body = l (int64 i, bool c_in, float[k] a, string[n] v)
            => (bool c, float[k] b, string[n] u) { c = Identity(c_in)  u = Identity(v)  b = Add(a, z) }>
        }""",
        [{"m": scalar(3), "x": np.array(["a", "bc"], object), "z": floats(4)}],
        elsewhere={"Loop": "input 3 is a tensor of string"},
    ),
    "loop_that_reads_strings_around_it": Case(
        """(int64 m, string[n] x, float[n] z) => (float[n] y) {
          y = Loop (m, , z) <body = l (int64 i, bool c_in, float[n] v) => (bool c, float[n] w) {
            c = Identity(c_in)  f = Cast <to = 1> (x)  w = Add(v, f)
          }>
        }""",
        [{"m": scalar(3), "x": np.array(["0.5", "2"], object), "z": floats(2)}],
        elsewhere={"Loop": "implicit input 0 is a tensor of string"},
    ),
    "loop_with_nothing_for_us_inside": Case(
        """(int64 m, float[n] x) => (float[n] y) {
          y = Loop (m, , x) <body = l (int64 i, bool c_in, float[n] v) => (bool c, float[n] w) {
            c = Identity(c_in)  t = Cast <to = 8> (v)  w = Cast <to = 1> (t)
          }>
        }""",
        [{"m": scalar(3), "x": np.array([0.5, 2], np.float32)}],
        elsewhere={"Loop": "no node inside it has a kernel"},
    ),
    "loop_that_counts_stays_with_the_host": Case(
        """(int64 m, bool go, float[n] x) => (float[n] y, int64[k] s) {
          s = Loop (m, go) <body = l (int64 i, bool c_in) => (bool c, int64 o) { c = Identity(c_in)  o = Mul(i, i) }>
          y = Neg(x)
        }""",
        [{"m": scalar(m), "go": scalar(True, np.bool_), "x": floats(2)} for m in (0, 5)],
        elsewhere={"Loop": ""},
    ),
    **{f"scan_{opset}": _scan("", floats(4, 2, 3), opset) for opset in (9, 11, 16, 19, 21)},
    "scan_backwards": _scan("scan_input_directions = [1], ", floats(4, 2, 3)),
    "scan_that_prepends": _scan("scan_output_directions = [1], ", floats(4, 2, 3)),
    "scan_along_the_last_axis": _scan("scan_input_axes = [-1], ", floats(4, 2, 3)),
    "scan_into_the_last_axis": _scan("scan_output_axes = [-1], ", floats(4, 2, 3)),
    "scan_along_the_middle_axis_backwards": _scan(
        "scan_input_axes = [1], scan_output_axes = [2], scan_input_directions = [1], scan_output_directions = [1], ",
        floats(4, 5, 3),
    ),
    "scan_of_one_slice": _scan("scan_input_axes = [-2], scan_output_axes = [-2], ", floats(4, 1, 3)),
    # The CPU provider of some hosts divides by zero.
    "scan_of_empty_slices": _scan("scan_input_axes = [1], ", floats(4, 2, 0), expected=[floats(4, 0), floats(2, 4, 0)]),
    "scan_of_many_slices": _scan("scan_input_axes = [1], scan_output_axes = [1], ", floats(33, 200, 17)),
    "scan_of_vectors": _scan("scan_output_axes = [-1], ", floats(6, 2), rank=2),
    "scan_without_state": Case(
        """(float[k, n] x, float[n, k] z) => (float[k, n] y, float[n, k] w) {
          y, w = Scan <num_scan_inputs = 2, scan_input_axes = [0, 1], scan_output_axes = [0, 1],
            body = b (float[n] p, float[n] q) => (float[n] r, float[n] s) { r = Add(p, q)  s = Mul(p, q) }> (x, z)
        }""",
        [{"x": floats(4, 3), "z": floats(3, 4, seed=1)}],
        11,
    ),
    "scan_8_stays_on_the_cpu": Case(
        """(int64[b] lengths, float[b, n] start, float[b, k, n] x) => (float[b, n] y, float[b, k, n] w) {
          y, w = Scan <num_scan_inputs = 1, body = l (float[n] s, float[n] v) => (float[n] t, float[n] o) {
            t = Add(s, v)  o = Mul(t, v) }> (lengths, start, x)
        }""",
        [{"lengths": np.array([3, 1]), "start": floats(2, 4, seed=1), "x": floats(2, 3, 4)}],
        8,
        elsewhere={"Scan": "no kernel for version 8 of ai.onnx.Scan, only for 9-25"},
    ),
}


def named(prefix: str, make: Callable[[Case], Callable[[], None]]) -> dict[str, Callable[[], None]]:
    """A function of each case, under the prefix and its name."""
    return {f"{prefix}{name}": make(case) for name, case in CASES.items()}
