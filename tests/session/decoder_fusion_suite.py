"""What compiled regions make of decoders: the results of their nodes, however the model spells its layers.

python -m tests.session.decoder_fusion_suite LIBRARY
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper

from tests.session.fusion_models import BATCH, HEAD, HEADS, HIDDEN, STEPS, Graph
from tests.session.region_fusion_suite import rewritten
from tests.session.region_suite import joined
from tests.session.suite import error_of, run_checks, session

KV_HEADS, PAST = 2, 5


@dataclass
class Decoder(Graph):
    """Self-attention and a gated feed-forward layer, with what differs between models as fields."""

    opset: int = 20
    dtype: Any = np.float32
    past: int | None = PAST  # absent: keys and values are the new ones alone
    leaves: bool = True  # whether keys and values are results
    rotated: int = HEAD  # elements of each head
    interleaved: bool = False  # in pairs of neighbours
    joins_rest: bool = False  # what is not rotated, though it be nothing
    rows_first: bool = False  # heads are turned to the front behind the rotation
    own_positions: bool = False  # of each entry of the batch
    own_heads: bool = False  # angles of each head, of all positions the same
    widened: bool = False  # heads and angles, to float and back, while heads are rotated
    norms: bool = False
    norm_last: bool = False  # behind the rotation
    kv_heads: int = KV_HEADS
    bias: bool = False
    activation: str = "silu"
    by_head: bool = False  # one product, of which each head is queries, keys and values
    one_product: bool = False  # of queries, keys and values, and of gate and other
    value_size: int = HEAD
    softcap: float = 0  # of scores, below the mask
    turned: str = ""  # attention's result, before its heads are merged
    names: dict[str, list[int | str]] = field(default_factory=dict)

    def shaped(self, name: str, array: np.ndarray, dims: list[int | str]) -> str:
        """An input whose dimensions the model states so."""
        self.names[name] = dims
        return self.feed(name, array)

    def open_dims(self, array: np.ndarray) -> list[int | str]:
        for name, feed in self.feeds.items():
            if feed is array:
                return self.names[name]
        raise KeyError(array.shape)

    def ints(self, *values: int) -> str:
        return self.constant(list(values), np.int64)

    def product(self, x: str, columns: int, rows: int = HIDDEN) -> str:
        y = self.add("MatMul", x, self.weight(rows, columns, dtype=self.dtype))
        return self.add("Add", y, self.constant(self.normal(columns), self.dtype)) if self.bias else y

    def part(self, x: str, begin: int, end: int) -> str:
        return self.add("Slice", x, self.ints(begin), self.ints(end), self.ints(-1), self.ints(1))

    def halves_turned(self, x: str) -> str:
        half = self.rotated // 2
        return self.add("Concat", self.add("Neg", self.part(x, half, 2**63 - 1)), self.part(x, 0, half), axis=-1)

    def pairs_turned(self, x: str) -> str:
        first, second = (
            self.add("Slice", x, self.ints(i), self.ints(2**63 - 1), self.ints(-1), self.ints(2)) for i in (0, 1)
        )
        apart = [self.add("Unsqueeze", each, self.ints(-1)) for each in (self.add("Neg", second), first)]
        ahead = self.add("Slice", self.add("Shape", x), self.ints(0), self.ints(3))
        rows = self.add("Concat", ahead, self.ints(self.rotated), axis=0)
        return self.add("Reshape", self.add("Concat", *apart, axis=-1), rows)

    def rotate(self, x: str, cos: str, sin: str) -> str:
        whole = self.rotated == HEAD and not self.joins_rest
        some = x if whole else self.part(x, 0, self.rotated)
        across = self.pairs_turned(some) if self.interleaved else self.halves_turned(some)
        y = self.add("Add", self.add("Mul", some, cos), self.add("Mul", across, sin))
        return y if whole else self.add("Concat", y, self.part(x, self.rotated, 2**63 - 1), axis=-1)

    def rotate_in_float(self, *values: str) -> str:
        wide = [self.add("Cast", value, to=onnx.TensorProto.FLOAT) for value in values]
        return self.add("Cast", self.rotate(*wide), to=helper.np_dtype_to_tensor_dtype(np.dtype(self.dtype)))

    def norm(self, x: str) -> str:
        mean = self.add("ReduceMean", self.add("Pow", x, self.constant(2, self.dtype)), self.ints(-1))
        root = self.add("Sqrt", self.add("Add", mean, self.constant(1e-3, self.dtype)))
        return self.add("Mul", self.add("Div", x, root), self.constant(self.normal(HEAD), self.dtype))

    def repeat(self, x: str) -> str:
        group = HEADS // self.kv_heads
        if group == 1:
            return x
        shape = self.add("Shape", x)
        at = [self.add("Slice", shape, self.ints(i), self.ints(i + 1)) for i in range(4)]
        wide = self.add("Concat", at[0], at[1], self.ints(group), *at[2:], axis=0)
        flat = self.add("Concat", at[0], self.ints(HEADS), *at[2:], axis=0)
        return self.add("Reshape", self.add("Expand", self.add("Unsqueeze", x, self.ints(2)), wide), flat)

    def split_heads(self, x: str) -> list[str]:
        """Queries, keys and values as [batch, rows, heads, size]."""
        columns = [HIDDEN, self.kv_heads * HEAD, self.kv_heads * self.value_size]
        if self.one_product:
            whole = self.product(x, sum(columns))
            ends = np.cumsum([0, *columns]).tolist()
            projected = [self.part(whole, ends[i], ends[i + 1]) for i in range(3)]
        else:
            projected = [self.product(x, each) for each in columns]
        sizes = (HEAD, HEAD, self.value_size)
        return [
            self.add("Reshape", rows, self.ints(0, 0, -1, size)) for rows, size in zip(projected, sizes, strict=True)
        ]

    def parts_of_heads(self, x: str) -> list[str]:
        """The same with heads first."""
        whole = self.add("Reshape", self.product(x, 3 * HIDDEN), self.ints(0, 0, HEADS, 3 * HEAD))
        turned = self.add("Transpose", whole, perm=[0, 2, 1, 3])
        return list(self.several("Split", turned, outputs=3, axis=-1, num_outputs=3))

    def attention(self, x: str, cos: str, sin: str, mask: str) -> str:
        heads = []
        for i, y in enumerate(self.parts_of_heads(x) if self.by_head else self.split_heads(x)):
            normalises = self.norms and i < 2
            y = self.norm(y) if normalises and not self.norm_last else y
            rotate = self.rotate_in_float if self.widened else self.rotate
            rotates = self.rotated != 0 and i < 2
            y = rotate(y, cos, sin) if rotates and self.rows_first else y
            y = y if self.by_head else self.add("Transpose", y, perm=[0, 2, 1, 3])
            y = rotate(y, cos, sin) if rotates and not self.rows_first else y
            heads.append(self.norm(y) if normalises and self.norm_last else y)
        for i in (1, 2):
            if self.past is not None:
                size = self.value_size if i == 2 else HEAD
                before = self.normal(BATCH, self.kv_heads, self.past, size, dtype=self.dtype)
                name = self.shaped(f"past{i}", before, ["batch", self.kv_heads, "past", size])
                heads[i] = self.add("Concat", name, heads[i], axis=-2)
            if self.leaves:
                self.outputs.append(heads[i])
        q, k, v = heads[0], self.repeat(heads[1]), self.repeat(heads[2])
        scores = self.add("MatMul", q, self.add("Transpose", k, perm=[0, 1, 3, 2]))
        scaled = self.add("Mul", scores, self.constant(HEAD**-0.5, self.dtype))
        if self.softcap:
            cap = self.constant(self.softcap, self.dtype)
            scaled = self.add("Mul", self.add("Tanh", self.add("Div", scaled, cap)), cap)
        mixed = self.add("MatMul", self.add("Softmax", self.add("Add", scaled, mask), axis=-1), v)
        self.turned = self.add("Transpose", mixed, perm=[0, 2, 1, 3])
        width = HEADS * self.value_size
        return self.product(self.add("Reshape", self.turned, self.ints(0, 0, width)), HIDDEN, width)

    def feed_forward(self, x: str) -> str:
        if self.one_product:
            gate, other = self.several("Split", self.product(x, 4 * HIDDEN), outputs=2, axis=-1, num_outputs=2)
        else:
            gate, other = self.product(x, 2 * HIDDEN), self.product(x, 2 * HIDDEN)
        if self.activation == "silu":
            active = self.add("Mul", gate, self.add("Sigmoid", gate))
        else:
            active = self.add("Gelu", gate, approximate="tanh")
        return self.product(self.add("Mul", active, other), HIDDEN, 2 * HIDDEN)

    def build(self) -> Decoder:
        keys = STEPS + (self.past or 0)
        entries = BATCH if self.own_positions else 1
        angles = self.rng.uniform(0, 3, (entries, 1, STEPS, self.rotated))
        entry: int | str = "batch" if self.own_positions else 1
        cache: list[int | str] = [entry, 1, "steps", self.rotated]
        if self.rows_first:
            angles, cache = angles.swapaxes(1, 2), [entry, "steps", 1, self.rotated]
        if self.own_heads:
            angles, cache = angles[:, :, :HEADS].swapaxes(1, 2), [entry, HEADS, 1, self.rotated]
        x = self.shaped("x", self.normal(BATCH, STEPS, HIDDEN, dtype=self.dtype), ["batch", "steps", HIDDEN])
        cos, sin = "", ""
        if self.rotated:
            cos = self.shaped("cos", np.cos(angles).astype(self.dtype), cache)
            sin = self.shaped("sin", np.sin(angles).astype(self.dtype), cache)
        hidden = np.triu(np.ones((STEPS, keys)), 1 + keys - STEPS)
        mask = np.where(hidden, -6e4, 0).astype(self.dtype)[None, None]
        mask = self.shaped("mask", mask, [1, 1, "steps", "keys" if self.past is not None else "steps"])
        y = self.add("Add", x, self.attention(x, cos, sin, mask))
        self.outputs.append(self.add("Add", y, self.feed_forward(y)))
        return self


FORMS: dict[str, dict[str, Any]] = {
    "appended": {},
    "nothing past": {"past": 0},
    "without past": {"past": None},
    "nothing leaves": {"leaves": False},
    "positions of each entry": {"own_positions": True},
    "partly rotated": {"rotated": 4},
    "rotated in float": {"widened": True},
    "partly rotated in float": {"widened": True, "rotated": 4},
    "not rotated": {"rotated": 0},
    "neighbours rotated": {"interleaved": True},
    "neighbours partly rotated": {"interleaved": True, "rotated": 4, "own_positions": True},
    "neighbours rotated in float": {"interleaved": True, "widened": True, "norms": True},
    "neighbours rotated rows first": {"interleaved": True, "rotated": 4, "rows_first": True, "one_product": True},
    "norms": {"norms": True, "past": None},
    "norms and past": {"norms": True, "bias": True},
    "norms behind the rotation": {"norms": True, "norm_last": True},
    "norms behind the rotation of some": {"norms": True, "norm_last": True, "rotated": 4, "interleaved": True},
    "as many heads": {"kv_heads": HEADS, "bias": True},
    "one head": {"kv_heads": 1, "activation": "gelu"},
    "capped scores": {"softcap": 2.0},
    "parts of each head": {"by_head": True, "kv_heads": HEADS, "rotated": 4, "bias": True},
    "parts of each head without past": {"by_head": True, "kv_heads": HEADS, "past": None, "leaves": False},
    "one product": {"one_product": True},
    "one product, nothing but rotated": {"one_product": True, "joins_rest": True},
    "one product of norms": {"one_product": True, "norms": True, "bias": True, "activation": "gelu"},
}


def check_every_form_of_a_layer() -> None:
    """All results, of both types, as those of the nodes one by one; one operator has what is around attention."""
    for name, form in FORMS.items():
        for dtype, tolerance in ((np.float32, 2e-5), (np.float16, 2e-2)):
            g = Decoder(dtype=dtype, **form).build()
            passes = ("attention", "decoder_attention", "projections", *(("rotary",) if g.rotated else ()))
            session = rewritten(g.model(), passes)
            expected = joined(g.model()).run(None, g.feeds)
            for _ in range(3):  # the third may be a graph's
                for mine, twin in zip(session.run(None, g.feeds), expected, strict=True):
                    assert mine.shape == twin.shape, (name, mine.shape, twin.shape)
                    largest = np.max(np.abs(twin), initial=1e-3)
                    np.testing.assert_allclose(mine, twin, rtol=0, atol=tolerance * largest, err_msg=name)


def check_each_pass_alone() -> None:
    """What a pass leaves is what the others expect."""
    for left_out in (
        "activation",
        "norm",
        "views",
        "rotary",
        "attention",
        "decoder_attention",
        "product_epilogue",
        "projections",
    ):
        g = Decoder(norms=True).build()
        mine = joined(g.model(), {"fusion": "1", "fusion_skip": left_out}).run(None, g.feeds)
        for y, twin in zip(mine, joined(g.model()).run(None, g.feeds), strict=True):
            np.testing.assert_allclose(y, twin, rtol=0, atol=2e-5 * np.max(np.abs(twin)), err_msg=left_out)


def check_steps_of_a_decoder() -> None:
    """Present keys and values as the past ones of the next Run."""
    g = Decoder(rotated=4).build()
    fused, plain = rewritten(g.model(), ("decoder_attention",)), joined(g.model())
    feeds = dict(g.feeds)
    for step in range(4):
        keys = STEPS + feeds["past1"].shape[2] if step == 0 else 1 + feeds["past1"].shape[2]
        rows = STEPS if step == 0 else 1
        feeds |= {
            "x": g.normal(BATCH, rows, HIDDEN),
            "cos": g.normal(1, 1, rows, 4),
            "sin": g.normal(1, 1, rows, 4),
            "mask": g.normal(1, 1, rows, keys),
        }
        mine, twin = fused.run(None, feeds), plain.run(None, feeds)
        for y, right in zip(mine, twin, strict=True):
            np.testing.assert_allclose(y, right, rtol=0, atol=2e-5 * np.max(np.abs(right)))
        feeds |= {"past1": mine[0], "past2": mine[1]}


def check_angles_of_heads() -> None:
    """As many heads as rows, and not: nothing takes them for angles of rows, whatever the host leaves of the model."""
    level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    g = Decoder(own_heads=True, kv_heads=HEADS, past=None).build()
    for rows in (HEADS, STEPS):
        feeds = g.feeds | {"x": g.feeds["x"][:, :rows], "mask": g.feeds["mask"][..., :rows, :rows]}
        options = [{"compiled_regions": "1"}, {"compiled_regions": "0"}]
        mine, twin = (session(g.model(), each, True, level=level).run(None, feeds) for each in options)
        for y, right in zip(mine, twin, strict=True):
            np.testing.assert_allclose(y, right, rtol=0, atol=2e-5 * np.max(np.abs(right)))


def check_dimensions_of_a_result_that_nothing_makes() -> None:
    """Read as data, of the product with the values and of what it is turned to; the sizes of values are others, too."""
    for turned in (False, True):
        for size in (HEAD, 2 * HEAD):
            g = Decoder(past=None, leaves=False, value_size=size).build()
            mixed = next(node.input[0] for node in g.nodes if node.name == g.turned)
            sizes = g.add("Cast", g.add("Shape", g.turned if turned else mixed), to=onnx.TensorProto.FLOAT)
            g.outputs.append(g.add("Mul", g.outputs.pop(), g.add("ReduceSum", sizes, keepdims=0)))
            passes = ("attention", "decoder_attention") if size == HEAD else ("attention",)
            mine, twin = (s.run(None, g.feeds)[0] for s in (rewritten(g.model(), passes), joined(g.model())))
            np.testing.assert_allclose(mine, twin, rtol=0, atol=2e-5 * np.max(np.abs(twin)))


def check_names_of_rows_that_lie() -> None:
    """Angles of one row for all, under the name of the rows: refused by name, and right without rewriting."""
    g = Decoder(past=None).build()
    feeds = g.feeds | {name: g.feeds[name][:, :, :1] for name in ("cos", "sin")}
    error = error_of(lambda: rewritten(g.model(), ("decoder_attention",)).run(None, feeds))
    assert "both 'steps', and they are 6 and 1: fusion=0" in error or "both 'steps', and they are 1 and 6" in error, (
        error
    )
    joined(g.model()).run(None, feeds)


if __name__ == "__main__":
    run_checks(globals())
