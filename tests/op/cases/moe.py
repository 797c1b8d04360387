"""MoE and QMoE: routing, activations and their gates, weights of every width, few tokens and many."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..harness import MICROSOFT, Case, Of, Rand
from ..harness.inputs import Input
from ..harness.tolerances import Tolerance

_ALL = ("float32", "float16", "bfloat16")
_TWO = ("float32", "float16")

# What a token's experts made is rounded to the type twice: between the products, and before it is added up. A magnitude
# counts a 64th of the first product's terms, for their sum is of fp32, or an eighth, where weights are rounded as well.
_TOLERANCE = {
    "float32": Tolerance(4, terms=2.0**5),
    "float16": Tolerance(1, terms=2.0**12),
    "bfloat16": Tolerance(1, terms=2.0**15),
}

Array = np.ndarray
Form = dict[str, Any]


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


_ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "identity": lambda x: x,
    "relu": lambda x: np.where(x < 0, 0, x),
    "relu2": lambda x: np.where(x < 0, 0, x) * x,
    "gelu": lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    "silu": lambda x: x * _sigmoid(x),
}
_ACTIVATIONS["geglu"] = _ACTIVATIONS["gelu"]


def _gated(gate: Array, linear: Array, form: Form) -> Array:
    name = form.get("activation_type", "relu")
    if name != "swiglu":
        return _ACTIVATIONS[name](gate) * linear
    limit, after = form.get("swiglu_limit", np.inf), form.get("swiglu_limit_after_activation", 0)
    gate = gate if after else np.minimum(gate, limit)
    swish = gate * _sigmoid(form.get("activation_alpha", 1.0) * gate)
    swish = np.minimum(swish, limit) if after else swish
    return swish * (np.clip(linear, -limit, limit) + form.get("activation_beta", 0.0))


def _mixed(scores: Array) -> tuple[Array, Array]:
    """Two experts and their weights by SparseMixer: a softmax of those near the largest, then without it."""
    left, experts, weights = scores.copy(), [], []
    for _ in range(2):
        top = left.max()
        experts.append(int(left.argmax()))
        near = ~((top - scores) / np.maximum(np.abs(scores), top) > 0.02)
        weights.append(1 / np.exp(np.where(near, left, -np.inf) - top).sum())
        left[experts[-1]] = -np.inf
    return np.array(experts), np.array(weights)


def _routed(scores: Array, own: Array | None, form: Form) -> tuple[Array, Array]:
    """The experts of a token, and what they weigh."""
    if form.get("use_sparse_mixer", 0):
        experts, weights = _mixed(scores)
    else:
        experts = np.argsort(-scores, kind="stable")[: form.get("k", 1)]
        shares = np.exp(scores - scores.max())
        weights = (shares / shares.sum())[experts]
    if own is not None:
        weights = own[experts]
    if form.get("normalize_routing_weights", 0):
        weights = weights / weights.sum()
    return experts, np.where(np.isfinite(weights), weights, 0)


def _hidden(x: Array, first: Sequence[Array | None], third: Sequence[Array | None], form: Form,
            of: Callable[[Array], Array]) -> tuple[Array, Array]:  # fmt: skip
    """What is between the products of an expert, and what its terms add up to (`of`: of themselves or magnitudes)."""

    def product(matrix: Sequence[Array | None], of: Callable[[Array], Array] = np.asarray) -> Array:
        weight, bias = matrix
        assert weight is not None
        return of(x) @ of(weight).T + (0 if bias is None else of(bias))

    def parts(of: Callable[[Array], Array] = np.asarray) -> tuple[Array, Array]:
        if third[0] is not None:
            return product(first, of), product(third, of)
        both, fusion = product(first, of), form.get("swiglu_fusion", 0)
        half = both.shape[-1] // 2
        return (both[..., ::2], both[..., 1::2]) if fusion == 1 else (both[..., :half], both[..., half:])

    name = form.get("activation_type", "relu")
    if third[0] is None and name not in ("swiglu", "geglu"):
        size = product(first, of)
        return _ACTIVATIONS[name](product(first)), size**2 if name == "relu2" else size
    limit, beta = form.get("swiglu_limit", np.inf), form.get("activation_beta", 0.0)
    (gate, linear), sizes = parts(), parts(of)
    size = sizes[0] * np.abs(np.clip(linear, -limit, limit) + beta) + np.minimum(np.abs(gate), limit) * sizes[1]
    return _gated(gate, linear, form), size


def _experts(x: Array, router: Array, matrices: Sequence[Sequence[Array | None]], own: Array | None, form: Form,
             rounded_weights: bool | None = None) -> Array:  # fmt: skip
    """The result; with `rounded_weights` (whether weights are rounded) the magnitude of it."""
    rows = x.reshape(-1, x.shape[-1])
    y = np.zeros_like(rows)
    of: Callable[[Array], Array] = np.asarray if rounded_weights is None else np.abs
    for token, row in enumerate(rows):
        experts, weights = _routed(router[token], None if own is None else own[token], form)
        for expert, weight in zip(experts, weights, strict=True):
            first, second, third = ([None if m is None else m[expert] for m in matrix] for matrix in matrices)
            hidden, size = _hidden(row, first, third, form, of)
            if rounded_weights is not None:
                hidden = np.abs(hidden) + size * (2.0**-3 if rounded_weights else 2.0**-6)
            assert second[0] is not None
            made = of(second[0]) @ hidden + (0 if second[1] is None else of(second[1]))
            y[token] += of(weight) * made
    return y.reshape(x.shape)


def _plain(x: Array, router: Array, *inputs: Array | None, magnitude: bool = False, **form: Any) -> Array:
    given = [*inputs, *[None] * 6]
    return _experts(x, router, [given[:2], given[2:4], given[4:6]], None, form, False if magnitude else None)


def _plain_magnitude(*inputs: Any, **form: Any) -> Array:
    return _plain(*inputs, magnitude=True, **form)


def _unpacked(values: Array, bits: int, count: int) -> Array:
    """Bytes of several numbers, the first in the lowest bits."""
    parts = [(values.astype(np.int64) >> shift) & (2**bits - 1) for shift in range(0, 8, bits)]
    return np.stack(parts, axis=-1).reshape(*values.shape[:-1], -1)[..., :count].astype(np.float64)


def _weights(packed: Array | None, scales: Array | None, zeros: Array | None, bits: int, block: int) -> Array | None:
    if packed is None or scales is None:
        return None
    codes = _unpacked(packed, bits, packed.shape[-1] * 8 // bits)
    wide = block or codes.shape[-1]
    if zeros is None:
        point: Array = np.full(scales.shape, 2.0 ** (bits - 1))
    else:
        point = _unpacked(zeros, bits, scales.shape[-1])
    if not block:
        scales, point = scales[..., None], point[..., None]
    return (codes - np.repeat(point, wide, -1)) * np.repeat(scales, wide, -1)


def _quantized(x: Array, router: Array, *inputs: Array | None, magnitude: bool = False, **form: Any) -> Array:
    given = [*inputs, *[None] * 13]
    block, matrices = form.get("block_size", 0), []
    for i in range(3):
        bits = form.get(f"fc{i + 1}_expert_weight_bits", form.get("expert_weight_bits", 4))
        matrices.append([_weights(given[3 * i], given[3 * i + 1], given[9 + i], bits, block), given[3 * i + 2]])
    return _experts(x, router, matrices, given[12], form, True if magnitude else None)


def _quantized_magnitude(*inputs: Any, **form: Any) -> Array:
    return _quantized(*inputs, magnitude=True, **form)


def _name(tokens: Sequence[int], sizes: Sequence[int], note: str, form: Form) -> str:
    attrs = "".join(f",{name}={value}" for name, value in form.items())
    return f"{'x'.join(map(str, tokens))}-{'x'.join(map(str, sizes))}{attrs}{'-' * bool(note)}{note}"


def _case(tokens: Sequence[int], hidden: int, inner: int, experts: int, bias: bool = False, third: bool = False,
          x: Input = None, router: Input = None, dtypes: Sequence[str] = _TWO, note: str = "", judge: bool = False,
          constant: bool = True, **form: Any) -> Case:  # fmt: skip
    rows = inner * (2 if form.get("swiglu_fusion") and form.get("activation_type") in ("swiglu", "geglu") else 1)
    inputs: list[Input] = [x or Rand((*tokens, hidden), low=-1, high=1)]
    inputs.append(router or Rand((int(np.prod(tokens)), experts), low=-2, high=2))
    for n, k in ((rows, hidden), (hidden, inner), (inner, hidden))[: 3 if third else 2]:
        inputs += [Rand((experts, n, k), low=-0.5, high=0.5), Rand((experts, n), low=-1, high=1) if bias else None]
    while inputs[-1] is None:
        inputs.pop()
    return Case(op="MoE", domain=MICROSOFT, opset=1, inputs=inputs, attrs=form, dtypes=dtypes,
                expected="ort_cpu" if judge else _plain, magnitude=_plain_magnitude, tolerance=_TOLERANCE,
                constants=(2, 4) if constant else (),
                name=_name(tokens, (hidden, inner, experts), note + "bias" * bias + "third" * third, form))  # fmt: skip


def _qcase(tokens: Sequence[int], hidden: int, inner: int, experts: int, bits: int = 4, block: int = 0,
           zeros: bool = False, bias: bool = False, third: bool = False, own: Input = None,
           dtypes: Sequence[str] = _TWO, note: str = "", judge: bool = False, **form: Any) -> Case:  # fmt: skip
    rows = inner * (2 if form.get("swiglu_fusion") and form.get("activation_type") in ("swiglu", "geglu") else 1)
    form = {"expert_weight_bits": bits} | ({"block_size": block} if block else {}) | form
    inputs: list[Input] = [None] * 15
    inputs[0] = Rand((*tokens, hidden), low=-1, high=1)
    inputs[1] = Rand((int(np.prod(tokens)), experts), low=-2, high=2)
    inputs[14] = own
    for i, (n, k) in enumerate(((rows, hidden), (hidden, inner), (inner, hidden))[: 3 if third else 2]):
        width = form.get(f"fc{i + 1}_expert_weight_bits", bits)
        inputs[2 + 3 * i] = Rand((experts, n, k * width // 8), "uint8", full=True)
        blocks = (k // block,) if block else ()
        inputs[3 + 3 * i] = Rand((experts, n, *blocks), low=0.5 / 2**width, high=1.5 / 2**width)
        if bias:
            inputs[4 + 3 * i] = Rand((experts, n), low=-1, high=1)
        if zeros:
            packed = (n, -(-blocks[0] * width // 8)) if block else (-(-n * width // 8),)
            inputs[11 + i] = Rand((experts, *packed), "uint8", full=True)
    while inputs[-1] is None:
        inputs.pop()
    note += "-zeros" * zeros + "-bias" * bias + "-third" * third + "-own" * (own is not None)
    return Case(op="QMoE", domain=MICROSOFT, opset=1, inputs=inputs, attrs=form, dtypes=dtypes,
                expected="ort_cpu" if judge else _quantized, magnitude=_quantized_magnitude, tolerance=_TOLERANCE,
                constants=(2, 3, 5, 6), name=_name(tokens, (hidden, inner, experts), note, form))  # fmt: skip


def _refused(op: str, text: str, inputs: Sequence[Input], code: str = "INVALID_ARGUMENT", **form: Any) -> Case:
    skip = {"session": "the host refuses 3 bits of this kind first"} if form.get("expert_weight_bits") == 3 else {}
    return Case(op=op, domain=MICROSOFT, opset=1, dtypes=("float32",), error=(code, text), attrs=form, inputs=inputs,
                skip=skip, name=f"refused-{text.replace(' ', '_')}")  # fmt: skip


_LOUDEST = np.uint64(2**63 - 1).view(np.float64)  # as GPUs make them


def _row_of(special: float, tokens: int, columns: int, row: int, column: int | None = None) -> Of:
    values = np.random.default_rng(5).uniform(-1, 1, (tokens, columns))
    values[row, columns // 2 if column is None else column] = special
    return Of(values)


def _crowd(tokens: int, experts: int, chosen: Sequence[int]) -> Of:
    """Scores by which every token goes to `chosen`."""
    values = np.random.default_rng(6).uniform(-1, 1, (tokens, experts))
    values[:, list(chosen)] += 4
    return Of(values)


_SWIGLU = {"activation_type": "swiglu", "activation_alpha": 1.5, "activation_beta": 1.0, "swiglu_limit": 2.0}
_SMALL = (Rand((2, 8)), Rand((2, 3)), Rand((3, 4, 8)), None, Rand((3, 8, 4)))
_QSMALL = (Rand((2, 16)), Rand((2, 3)), Rand((3, 16, 8), "uint8"), Rand((3, 16)), None, Rand((3, 16, 8), "uint8"),
           Rand((3, 16)))  # fmt: skip

CASES = [
    # activations, for few tokens and many
    *(_case((n,), 24, 40, 4, k=2, bias=True, activation_type=name)
      for n in (3, 20) for name in ("identity", "relu", "relu2", "gelu", "silu")),
    *(_case((n,), 24, 40, 4, k=2, bias=True, swiglu_fusion=fusion, **_SWIGLU) for n in (3, 20) for fusion in (1, 2)),
    *(_case((n,), 24, 40, 4, k=2, bias=True, third=True, **_SWIGLU) for n in (3, 20)),
    *(_case((n,), 24, 40, 4, activation_type="geglu", swiglu_fusion=fusion) for n in (3, 20) for fusion in (1, 2)),
    _case((9,), 24, 40, 4, k=2, swiglu_fusion=1, swiglu_limit_after_activation=1, **_SWIGLU),
    _case((9,), 24, 40, 4, k=2, swiglu_fusion=1, activation_type="swiglu"),
    *(_case((9,), 24, 40, 4, k=2, third=True, activation_type=name) for name in ("relu", "gelu", "silu")),
    _case((9,), 24, 40, 4, activation_type="silu", swiglu_fusion=1),  # of swiglu alone
    # routing
    *(_case((n,), 16, 24, 6, k=k, normalize_routing_weights=norm)
      for n in (7, 40) for k in (1, 3, 4) for norm in (0, 1)),
    *(_case((n,), 16, 24, 6, k=2, use_sparse_mixer=1, router=Rand((n, 6), low=0.95, high=1), dtypes=("float32",))
      for n in (7, 40)),
    _case((12,), 16, 24, 6, k=2, use_sparse_mixer=1, normalize_routing_weights=1, router=_crowd(12, 6, (0, 4)),
          dtypes=("float32",)),
    _case((30,), 16, 24, 64, k=4, bias=True),
    _case((5,), 16, 24, 1),
    _case((20,), 16, 24, 1),
    _case((20,), 16, 24, 8, k=2, router=_crowd(20, 8, (1, 6)), note="crowd"),
    _case((3,), 16, 24, 8, k=2, router=Of(np.zeros((3, 8))), note="equal"),
    _case((12,), 16, 24, 45, k=2, router=Of(np.zeros((12, 45))), note="equal"),
    # NaN and infinities stay in their row; a token whose scores are not finite gets nothing
    *(_case((n,), 16, 24, 4, k=2, x=_row_of(special, n, 16, 2), note=f"x-{special}", activation_type="identity")
      for n in (4, 20) for special in (np.nan, np.inf)),
    *(_case((n,), 16, 24, 4, k=2, router=_row_of(special, n, 4, 2), note=f"router-{special}")
      for n in (4, 20) for special in (np.nan, np.inf, -np.inf)),
    # a NaN of all bits, first among the experts, all of which are wanted
    *(_case((n,), 16, 24, experts, k=experts, router=_row_of(_LOUDEST, n, experts, 2, 0), dtypes=("float32",),
            note="router-loudest") for n in (4, 20) for experts in (1, 2)),
    # sizes
    *(_case((n,), 16, 24, 4, k=2, dtypes=_ALL) for n in (0, 1, 8, 300)),
    _case((2, 5), 16, 24, 4, k=2),
    _case((2, 3), 16, 24, 4, k=2),
    *(_case((n,), 37, 29, 3, k=2, bias=True, swiglu_fusion=fusion, activation_type="swiglu", dtypes=_ALL)
      for n in (2, 30) for fusion in (1, 2)),
    _case((7,), 37, 29, 3, third=True, activation_type="silu"),
    *(_case((n,), 264, 200, 2, k=1, bias=True, activation_type="silu", dtypes=_ALL) for n in (1, 70, 300)),
    _case((600,), 72, 136, 2, k=2, swiglu_fusion=1, activation_type="swiglu", dtypes=("float16", "bfloat16")),
    _case((1,), 1100, 8, 3, k=2, activation_type="silu"),
    _case((20,), 16, 24, 4, constant=False, note="fed"),
    # the CPU provider's opinion
    *(_case((n,), 24, 40, 4, k=2, bias=True, judge=True, normalize_routing_weights=norm, activation_type=name,
            dtypes=("float32",), note="judged") for n in (3, 20) for norm in (0, 1) for name in ("gelu", "silu")),
    _case((20,), 24, 40, 4, k=2, bias=True, judge=True, swiglu_fusion=1, dtypes=("float32",), note="judged", **_SWIGLU),
    # packed weights: width, blocks and zero points, few tokens and many
    *(_qcase((n,), 64, 32, 3, bits, block, zeros, k=2, normalize_routing_weights=1, activation_type="silu")
      for n in (2, 20) for bits in (2, 4, 8) for block in (0, 16) for zeros in (False, True)),
    *(_qcase((n,), 64, 96, 3, bits, 32, True, bias=True, k=2, swiglu_fusion=fusion, dtypes=_ALL, **_SWIGLU)
      for n in (2, 20) for bits in (4, 8) for fusion in (1, 2)),
    *(_qcase((n,), 64, 96, 3, 4, 32, k=2, third=True, bias=True, dtypes=_ALL, **_SWIGLU) for n in (2, 20)),
    *(_qcase((n,), 40, 24, 3, 8, zeros=True, third=True, activation_type="silu") for n in (2, 20)),
    *(_qcase((n,), 36, 20, 3, 4, zeros=True, activation_type="silu") for n in (2, 20)),  # rows of no whole packs
    *(_qcase((n,), 64, 32, 3, fc1_expert_weight_bits=8, fc2_expert_weight_bits=2, activation_type="gelu")
      for n in (2, 20)),
    _qcase((300,), 192, 160, 2, 4, 32, True, k=1, activation_type="relu", dtypes=("float16", "bfloat16")),
    _qcase((72,), 192, 160, 2, 8, k=2, activation_type="silu", dtypes=("float16", "bfloat16")),
    _qcase((1,), 2080, 16, 3, 4, 16, True, k=2, activation_type="identity"),
    _qcase((20,), 64, 32, 6, k=3, own=Rand((20, 6), low=0.1, high=1), activation_type="identity"),
    _qcase((5,), 64, 32, 6, k=3, own=Rand((5, 6), low=0.1, high=1), normalize_routing_weights=1, weights_prepacked=0),
    _qcase((0,), 64, 32, 3),
    *(_qcase((n,), 64, 32, 3, bits, block, True, bias=True, k=2, judge=True, normalize_routing_weights=1,
             swiglu_fusion=1, dtypes=("float32",), note="judged", **_SWIGLU)
      for n in (2, 20) for bits in (4, 8) for block in (0, 32)),
    # refusals
    _refused("MoE", "k 4 of 3 experts", _SMALL, k=4),
    _refused("MoE", "k 0 experts", _SMALL, k=0),
    _refused("MoE", "use_sparse_mixer needs k 2", _SMALL, use_sparse_mixer=1),
    _refused("MoE", "activation_type tanh", _SMALL, "NOT_SUPPORTED", activation_type="tanh"),
    _refused("MoE", "needs fc3_experts_weights", _SMALL, activation_type="swiglu"),
    _refused("MoE", "geglu needs swiglu_fusion", _SMALL, activation_type="geglu"),
    _refused("MoE", "swiglu_fusion 3", _SMALL, activation_type="swiglu", swiglu_fusion=3),
    _refused("MoE", "is of swiglu", _SMALL, swiglu_limit_after_activation=1),
    _refused("MoE", "has no fc3", (*_SMALL, None, Rand((3, 4, 8))), activation_type="swiglu", swiglu_fusion=1),
    _refused("MoE", "fc1_experts_weights has shape", (*_SMALL[:2], Rand((3, 5, 8)), *_SMALL[3:])),
    _refused("MoE", "router_probs [3,3]", (_SMALL[0], Rand((3, 3)), *_SMALL[2:])),
    _refused("QMoE", "quant_type fp8", _QSMALL, "NOT_SUPPORTED", quant_type="fp8"),
    _refused("QMoE", "input 15", (*_QSMALL, *[None] * 8, Rand((3,), "float32")), "NOT_SUPPORTED"),
    _refused("QMoE", "weights_prepacked 1", _QSMALL, "NOT_SUPPORTED", weights_prepacked=1),
    _refused("QMoE", "fc1_expert_weight_bits 3", _QSMALL, "NOT_SUPPORTED", expert_weight_bits=3),
    _refused("QMoE", "block_size 24", _QSMALL, block_size=24),
    _refused("QMoE", "in blocks of 32", _QSMALL, block_size=32),
    _refused("QMoE", "fc2_scales is missing", _QSMALL[:-1]),
    _refused("QMoE", "fc1_scales has shape", (*_QSMALL[:3], Rand((3, 15)), *_QSMALL[4:])),
]  # fmt: skip
