"""Operator schemas, from onnx for its own domain and from the installed host for the host's operators."""

import functools
from dataclasses import dataclass, replace

import onnx
import onnx.defs

from .dtypes import name_of_type

FUSED_DOMAIN = "cudaep.fused"
OWN_DOMAIN = "ort_cuda_ep"
NEWEST_OPSET = 28  # of the newest host we support (ONNX Runtime 1.32); newer ones are refused by it


@dataclass(frozen=True)
class Formal:
    """An input or output of a schema; `type` is a constraint's name or a type such as "tensor(bool)"."""

    name: str
    type: str
    variadic: bool


@dataclass(frozen=True)
class Schema:
    """One version of an operator. `types` has each constraint's types by name, `attributes` each one's kind."""

    domain: str
    op: str
    since: int
    inputs: tuple[Formal, ...]
    outputs: tuple[Formal, ...]
    types: dict[str, frozenset[str]]
    attributes: dict[str, str]

    def input(self, index: int) -> Formal | None:
        """The formal of an actual input; the last one may stand for many."""
        return _formal(self.inputs, index)

    def output(self, index: int) -> Formal | None:
        """The formal of an actual output."""
        return _formal(self.outputs, index)

    def allowed(self, formal: Formal) -> frozenset[str]:
        """The types that a formal can have."""
        return self.types.get(formal.type, frozenset({name_of_type(formal.type)}))


def versions(domain: str, op: str) -> list[int]:
    """All versions of an operator up to NEWEST_OPSET, oldest first; empty for an unknown one."""
    return sorted(_history().get((domain, op), {}))


def schema(domain: str, op: str, opset: int = NEWEST_OPSET) -> Schema:
    """The version of an operator that a model of `opset` gets. KeyError where there is none."""
    found = [version for version in versions(domain, op) if version <= opset]
    if not found:
        raise KeyError(f"no schema of {domain or 'ai.onnx'}.{op} in opset {opset}")
    return _history()[domain, op][found[-1]]


def _formal(formals: tuple[Formal, ...], index: int) -> Formal | None:
    if index < len(formals):
        return formals[index]
    return formals[-1] if formals and formals[-1].variadic else None


@functools.cache
def _history() -> dict[tuple[str, str], dict[int, Schema]]:
    """(domain, op) -> version -> schema. onnx has the last word on its own operators."""
    table: dict[tuple[str, str], dict[int, Schema]] = {}
    for found in (
        _fused_schemas()
        + _own_schemas()
        + _host_schemas()
        + [_from_onnx(s) for s in onnx.defs.get_all_schemas_with_history()]
    ):
        if found.since <= NEWEST_OPSET:
            table.setdefault((found.domain, found.op), {})[found.since] = found
    return table


def _from_onnx(s: onnx.defs.OpSchema) -> Schema:
    variadic = onnx.defs.OpSchema.FormalParameterOption.Variadic
    return Schema(
        domain=s.domain,
        op=s.name,
        since=s.since_version,
        inputs=tuple(Formal(f.name, f.type_str, f.option == variadic) for f in s.inputs),
        outputs=tuple(Formal(f.name, f.type_str, f.option == variadic) for f in s.outputs),
        types={c.type_param_str: _names(c.allowed_type_strs) for c in s.type_constraints},
        attributes={name: str(a.type).rsplit(".", 1)[-1] for name, a in s.attributes.items()},
    )


_NBITS_CONSTANTS = (("B", "T2"), ("scales", "T1"), ("zero_points", "T2"))


def _fused_schemas() -> list[Schema]:
    """Of what compiled regions make: no model has it, so neither onnx nor the host knows it."""
    names = ("Conv", "MatMul", "QLinearMatMul", "SpaceToDepth", "Transpose", "Concat")
    conv, matmul, quantized, image, same, parts = (_from_onnx(onnx.defs.get_schema(op)) for op in names)
    floats = {"T": frozenset({"float32", "float16", "bfloat16"})}
    x, y = Formal("X", "T", variadic=False), Formal("Y", "T", variadic=False)
    caches = (Formal("cos", "T", variadic=False), Formal("sin", "T", variadic=False))
    sums = (Formal("bias", "T", variadic=False), Formal("residual", "T", variadic=False))
    return [
        replace(same, domain=FUSED_DOMAIN, op="FromHost", since=1, attributes={}),
        replace(
            quantized,
            domain=FUSED_DOMAIN,
            op="QuantizedMatMul",
            since=1,
            attributes=dict.fromkeys(("a_perm", "b_perm", "y_perm"), "INTS"),
        ),
        Schema(
            FUSED_DOMAIN,
            "QuantizedSoftmax",
            1,
            (Formal("X", "T1", variadic=False), Formal("mask", "T2", variadic=False)),
            (Formal("Y", "T3", variadic=False),),
            {
                "T1": frozenset({"int8", "uint8"}),
                "T2": frozenset({"float32", "int8", "uint8"}),
                "T3": frozenset({"int8", "uint8"}),
            },
            {
                f"{coding}_{part}": kind
                for coding in ("x", "mask", "sum", "y")
                for part, kind in (("scale", "FLOAT"), ("zero", "INT"))
            },
        ),
        Schema(
            FUSED_DOMAIN,
            "QuantizedLayerNormalization",
            1,
            tuple(
                Formal(name, kind, variadic=False)
                for name, kind in (
                    ("X", "T1"),
                    ("X_scale", "tensor(float)"),
                    ("X_zero", "T1"),
                    ("residual", "T2"),
                    ("residual_scale", "tensor(float)"),
                    ("residual_zero", "T2"),
                    ("sum_scale", "tensor(float)"),
                    ("sum_zero", "T3"),
                    ("scale", "tensor(float)"),
                    ("bias", "tensor(float)"),
                    ("Y_scale", "tensor(float)"),
                    ("Y_zero", "T4"),
                )
            ),
            (Formal("Y", "T4", variadic=False),),
            {f"T{i}": frozenset({"int8", "uint8"}) for i in range(1, 5)},
            {"epsilon": "FLOAT"},
        ),
        Schema(FUSED_DOMAIN, "RotaryEmbedding", 1, (x, *caches), (y,), floats, {"interleaved": "INT"}),
        Schema(FUSED_DOMAIN, "Gated", 1, (x,), (y,), floats, {"activation": "STRING", "activated": "INT"}),
        Schema(
            FUSED_DOMAIN,
            "GatedMatMul",
            1,
            tuple(Formal(name, "T", variadic=False) for name in ("A", "B", "bias")),
            (y,),
            {"T": frozenset({"float16", "bfloat16"})},
            {"gate": "STRING", "alpha": "FLOAT"} | dict.fromkeys(("activated", "transB", "own_weights"), "INT"),
        ),
        Schema(
            FUSED_DOMAIN,
            "GatedMatMulNBits",
            1,
            tuple(
                Formal(name, kind, variadic=False)
                for name, kind in (
                    ("A", "T1"),
                    *((f"{name}{factor}", kind) for factor in (1, 2) for name, kind in _NBITS_CONSTANTS),
                )
            ),
            (Formal("Y", "T1", variadic=False),),
            {"T1": floats["T"], "T2": frozenset({"uint8"})},
            {"activation": "STRING"} | dict.fromkeys(("K", "N", "bits", "block_size"), "INT"),
        ),
        Schema(
            FUSED_DOMAIN,
            "GroupNorm",
            1,
            tuple(Formal(name, "T", variadic=False) for name in ("X", "scale", "bias")),
            (y,),
            floats,
            {"epsilon": "FLOAT"} | dict.fromkeys(("groups", "activation", "channels_last"), "INT"),
        ),
        Schema(
            FUSED_DOMAIN,
            "Attention",
            1,
            tuple(
                Formal(name, "T", variadic=False)
                for name in ("Q", "K", "V", "mask", "past_key", "past_value", "cos", "sin", "q_norm", "k_norm")
            ),
            tuple(Formal(name, "T", variadic=False) for name in ("Y", "present_key", "present_value")),
            floats,
            {"scale": "FLOAT", "norm_epsilon": "FLOAT"}
            | dict.fromkeys(("q_num_heads", "kv_num_heads", "head_size", "heads_apart", "empty_is_nan"), "INT")
            | dict.fromkeys(("mask_repeats", "rotary_interleaved", "packed_by_head", "norm_last"), "INT"),
        ),
        replace(
            image,
            domain=FUSED_DOMAIN,
            op="WindowsToChannels",
            since=1,
            attributes={"auto_pad": "STRING", "channels": "INT", "fill": "INT"}
            | dict.fromkeys(("kernel_shape", "strides", "dilations", "pads"), "INTS"),
        ),
        replace(
            image,
            domain=FUSED_DOMAIN,
            op="PatchesToChannels",
            since=1,
            attributes={"channels": "INT", "kernel_shape": "INTS"},
        ),
        replace(parts, domain=FUSED_DOMAIN, op="PlaceParts", since=1, attributes={"firsts": "INTS"}),
        replace(
            same,
            domain=FUSED_DOMAIN,
            op="Roll",
            since=1,
            attributes=dict.fromkeys(
                ("source_dims", "source_perm", "dims", "shifts", "target_dims", "target_perm", "shape"), "INTS"
            ),
        ),
        replace(
            conv,
            domain=FUSED_DOMAIN,
            op="StemConv",
            since=1,
            attributes=conv.attributes
            | {"activation": "STRING", "activation_params": "FLOATS"}
            | {"max_pool": "INT", "pool_pads": "INTS", "pool_ceil_mode": "INT"},
        ),
        Schema(
            FUSED_DOMAIN,
            "QuantizedStem",
            1,
            (
                Formal("X", "T1", variadic=False),
                Formal("W", "T2", variadic=False),
                Formal("bias", "tensor(float)", variadic=False),
                Formal("scale", "tensor(float)", variadic=False),
            ),
            (Formal("Y", "T3", variadic=False),),
            {
                "T1": frozenset({"int8"}),
                "T2": frozenset({"float16"}),
                "T3": frozenset({"int8", "uint8"}),
            },
            conv.attributes
            | {"activation": "STRING", "bounds": "FLOATS", "x_zero": "INT", "y_scale": "FLOAT", "y_zero": "INT"}
            | {"max_pool": "INT", "pool_pads": "INTS", "pool_ceil_mode": "INT"},
        ),
        Schema(
            FUSED_DOMAIN,
            "QuantizedConv",
            1,
            tuple(
                Formal(name, kind, variadic=False)
                for name, kind in (
                    ("X", "T1"),
                    ("W", "T1"),
                    ("scale", "tensor(float)"),
                    ("bias", "tensor(float)"),
                    ("shift", "tensor(int32)"),
                    ("residual", "T2"),
                )
            ),
            (Formal("Y", "T2", variadic=False),),
            {"T1": frozenset({"int8"}), "T2": frozenset({"int8", "uint8", "float32"})},
            conv.attributes
            | {"channels_last": "INT", "bounds": "FLOATS", "sum_bounds": "FLOATS", "x_zero": "INT", "tile": "INT"}
            | {f"{coding}_scale": "FLOAT" for coding in ("y", "residual", "sum")}
            | {f"{coding}_zero": "INT" for coding in ("y", "residual", "sum")},
        ),
        Schema(
            FUSED_DOMAIN,
            "QuantizedAttention",
            1,
            (
                *(Formal(name, "T1", variadic=False) for name in ("Q", "K", "V")),
                Formal("mask", "T2", variadic=False),
            ),
            (Formal("Y", "T3", variadic=False),),
            {
                "T1": frozenset({"int8"}),
                "T2": frozenset({"float32", "int8", "uint8"}),
                "T3": frozenset({"int8", "uint8"}),
            },
            {f"{tensor}_perm": "INTS" for tensor in "qkvy"}
            | {f"{tensor}_zero": "INT" for tensor in ("q", "k", "v", "y", "mask")}
            | {step: "FLOATS" for step in ("scores", "scaled", "masked", "shares", "result")}
            | {"exponent": "FLOAT", "mask_factor": "FLOAT"},
        ),
        Schema(
            FUSED_DOMAIN,
            "MatMulIntegerToCodes",
            1,
            tuple(
                Formal(name, kind, variadic=False)
                for name, kind in (
                    ("A", "T1"),
                    ("B", "T1"),
                    ("scale", "tensor(float)"),
                    ("shift", "tensor(float)"),
                    ("bias", "tensor(float)"),
                    ("table", "T2"),
                )
            ),
            tuple(Formal(name, "T2", variadic=False) for name in ("Y", "Y1", "Y2")),
            {"T1": frozenset({"int8"}), "T2": frozenset({"int8", "uint8"})},
            {
                f"{step}_{what}": kind
                for step in ("y", "first")
                for what, kind in (("scale", "FLOATS"), ("zero", "INTS"), ("lowest", "INTS"))
            },
        ),
        replace(
            conv,
            domain=FUSED_DOMAIN,
            since=1,
            inputs=(*conv.inputs, *(Formal(name, "T", variadic=False) for name in ("Z", "extended"))),
            attributes=conv.attributes
            | {"activation": "STRING", "activation_params": "FLOATS", "channels_last": "INT", "adds_last": "INT"}
            | dict.fromkeys(("x_first", "residual_first", "y_first", "y_channels"), "INT"),
        ),
        replace(
            matmul,
            domain=FUSED_DOMAIN,
            since=1,
            inputs=(*matmul.inputs, *sums),
            attributes={"activation": "STRING", "activation_params": "FLOATS", "alpha": "FLOAT"}
            | dict.fromkeys(("transA", "transB", "transBatchA", "transBatchB", "own_weights"), "INT"),
        ),
        Schema(
            FUSED_DOMAIN,
            "MatMulNorm",
            1,
            tuple(
                Formal(name, kind, variadic=False)
                for name, kind in (
                    *((name, "T") for name in ("A", "B", "bias", "residual", "gamma", "beta")),
                    *(("columns", "tensor(float)"), ("residual_moments", "tensor(float)")),
                )
            ),
            (Formal("rows", "T", variadic=False), Formal("moments", "tensor(float)", variadic=False), y),
            {"T": frozenset({"float16", "bfloat16"})},
            dict.fromkeys(("transB", "own_weights"), "INT")
            | dict.fromkeys(("norm_products", "residual_products"), "INTS")
            | dict.fromkeys(("epsilon", "norm_scale", "residual_epsilon", "residual_scale"), "FLOAT"),
        ),
        Schema(
            FUSED_DOMAIN,
            "NormedMatMul",
            1,
            tuple(
                Formal(name, kind, variadic=False)
                for name, kind in (
                    *((name, "T") for name in ("A", "B", "bias", "residual")),
                    *(("moments", "tensor(float)"), ("columns", "tensor(float)")),
                )
            ),
            (y,),
            {"T": frozenset({"float16", "bfloat16"})},
            {"activation": "STRING", "norm_products": "INTS"}
            | dict.fromkeys(("transB", "own_weights"), "INT")
            | dict.fromkeys(("epsilon", "norm_scale"), "FLOAT"),
        ),
        Schema(
            domain=FUSED_DOMAIN,
            op="Embedding",
            since=1,
            inputs=tuple(
                Formal(name, kind, variadic=False)
                for name, kind in (
                    *(
                        (f"{part}{i}", kind + str(i) * (kind == "I"))
                        for i in range(3)
                        for part, kind in (("rows", "T"), ("ids", "I"))
                    ),
                    *(("scale", "T"), ("beta", "T")),
                )
            ),
            outputs=(Formal("Y", "T", variadic=False), Formal("sum", "T", variadic=False)),
            types={
                "T": frozenset({"float32", "float16", "bfloat16"}),
                **{f"I{i}": frozenset({"int32", "int64"}) for i in range(3)},
            },
            attributes={"epsilon": "FLOAT", "rms": "INT"},
        ),
        Schema(
            domain=FUSED_DOMAIN,
            op="SegmentReduce",
            since=1,
            inputs=tuple(
                Formal(name, kind, variadic=False)
                for name, kind in (
                    ("rows", "T"),
                    ("starts", "I0"),
                    ("ends", "I1"),
                    ("count", "tensor(int64)"),
                    ("condition", "tensor(bool)"),
                    ("counted", "I2"),
                    ("indices", "I3"),
                    ("weights", "T"),
                    ("tail", "I0"),
                )
            ),
            outputs=(Formal("Y", "T", variadic=False),),
            types={
                "T": frozenset({"float32", "float16", "bfloat16"}),
                **{f"I{i}": frozenset({"int32", "int64"}) for i in range(4)},
            },
            attributes={"reduction": "STRING", "empty_is_zero": "INT", "counted": "INT"},
        ),
        Schema(
            domain=FUSED_DOMAIN,
            op="Elementwise",
            since=1,
            inputs=(Formal("X", "T", variadic=True),),
            outputs=(Formal("Y", "T1", variadic=True),),
            types={
                "T": frozenset({"float32", "float16", "bfloat16", "bool", "int8", "uint8", "int32", "int64"}),
                "T1": frozenset({"float32", "float16", "bfloat16", "bool", "int8", "uint8"}),
            },
            attributes={"functions": "STRINGS", "operands": "INTS", "numbers": "FLOATS", "results": "INTS"},
        ),
    ]


def _own_schemas() -> list[Schema]:
    """Of the operators whose schemas the library brings (src/abi/custom_operators.h)."""
    numbers = frozenset(
        {"float32", "float64", "float16", "bfloat16", "int8", "uint8", "int32", "uint32", "int64", "uint64"}
    )
    small = frozenset(
        {"bool", "int16", "uint16", *(f"float8_{name}" for name in ("e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz"))}
    )
    x, y = Formal("x", "Input0", variadic=False), Formal("y", "Input0", variadic=False)
    reduced = {"reduction": "STRING", "group_size": "INT"}
    attributes = {
        "AllReduce": reduced,
        "ReduceScatter": {**reduced, "axis": "INT"},
        "AllGather": {"axis": "INT", "group_size": "INT"},
        "AllToAll": dict.fromkeys(("split_axis", "concat_axis", "group_size"), "INT"),
    }
    return [
        Schema(OWN_DOMAIN, op, 1, (x,), (y,), {"Input0": numbers if "reduction" in kinds else numbers | small}, kinds)
        for op, kinds in attributes.items()
    ]


def _host_schemas() -> list[Schema]:
    from onnxruntime.capi import onnxruntime_pybind11_state as host

    return [
        Schema(
            domain=s.domain,
            op=s.name,
            since=s.since_version,
            inputs=tuple(Formal(f.name, f.typeStr, str(f.option).endswith("Variadic")) for f in s.inputs),
            outputs=tuple(Formal(f.name, f.typeStr, str(f.option).endswith("Variadic")) for f in s.outputs),
            types={c.type_param_str: _names(c.allowed_type_strs) for c in s.type_constraints},
            attributes={name: str(a.type).rsplit(".", 1)[-1] for name, a in s.attributes.items()},
        )
        for s in host.get_all_operator_schema()
    ]


def _names(type_strings: list[str]) -> frozenset[str]:
    return frozenset(filter(None, map(name_of_type, type_strings)))
