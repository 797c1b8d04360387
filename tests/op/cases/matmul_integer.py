"""Products of 8-bit integers, and what quantizes for them: DynamicQuantizeLinear."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..harness import MICROSOFT, Case, Of, Rand, Tolerance
from ..harness.inputs import Input
from ..harness.schemas import FUSED_DOMAIN
from ..harness.tolerances import EXACT

_BYTES = ("int8", "uint8")


def _columns(values: np.ndarray) -> np.ndarray:
    return values.astype(np.int64) if values.dtype.kind in "iu" else values.astype(np.float64)


def _rows(values: np.ndarray) -> np.ndarray:
    """A vector of rows stands before the columns."""
    return _columns(values)[..., None] if values.ndim == 1 and values.size > 1 else _columns(values)


def _sums(a: np.ndarray, b: np.ndarray, a_zero: np.ndarray | None, b_zero: np.ndarray | None) -> Any:
    wide_a = a.astype(np.int64) - (0 if a_zero is None else _rows(a_zero))
    wide_b = b.astype(np.int64) - (0 if b_zero is None else _columns(b_zero))
    return wide_a @ wide_b


def _integer(a: np.ndarray, b: np.ndarray, a_zero: np.ndarray | None = None, b_zero: np.ndarray | None = None) -> Any:
    return _sums(a, b, a_zero, b_zero).astype(np.int32)


def _requantized(acc: np.ndarray, scale: np.ndarray, zero: np.ndarray) -> np.ndarray:
    """In the steps of fp32 that the standard leaves open: one multiplication by one scale."""
    limits = np.iinfo(zero.dtype)
    y = np.rint(acc.astype(np.float32) * scale.astype(np.float32)) + zero.astype(np.float32)
    return np.clip(y, limits.min, limits.max).astype(zero.dtype)


def _linear(a: np.ndarray, a_scale: np.ndarray, a_zero: np.ndarray, b: np.ndarray, b_scale: np.ndarray,
            b_zero: np.ndarray, y_scale: np.ndarray, y_zero: np.ndarray) -> np.ndarray:  # fmt: skip
    scale = _rows(a_scale).astype(np.float32) * b_scale.astype(np.float32) / y_scale.astype(np.float32)
    return _requantized(_sums(a, b, a_zero, b_zero), scale, y_zero)


def _to_float(a: np.ndarray, b: np.ndarray, a_scale: np.ndarray, b_scale: np.ndarray, a_zero: np.ndarray | None = None,
              b_zero: np.ndarray | None = None, bias: np.ndarray | None = None) -> Any:  # fmt: skip
    return _sums(a, b, a_zero, b_zero) * (_rows(a_scale) * b_scale) + (0 if bias is None else bias)


def _float_terms(a: np.ndarray, b: np.ndarray, a_scale: np.ndarray, b_scale: np.ndarray,
                 a_zero: np.ndarray | None = None, b_zero: np.ndarray | None = None,
                 bias: np.ndarray | None = None) -> Any:  # fmt: skip
    product = np.abs(_sums(a, b, a_zero, b_zero) * (_rows(a_scale) * b_scale))
    return product + (0 if bias is None else np.abs(bias))


def _quantize(x: np.ndarray, **_: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    low, high = (np.float32(end(x.astype(np.float32), initial=np.float32(0))) for end in (np.min, np.max))
    scale = np.float32(1) if low == high else (high - low) / np.float32(255)
    zero = np.rint(np.clip(np.float32(0) - low / scale, 0, 255))
    codes = np.clip(np.rint(x.astype(np.float32) / scale) + zero, 0, 255).astype(np.uint8)
    return codes, np.asarray(scale), np.asarray(zero.astype(np.uint8))


def _dynamic(a: np.ndarray, b: np.ndarray, b_scale: np.ndarray, b_zero: np.ndarray | None = None,
             bias: np.ndarray | None = None) -> Any:  # fmt: skip
    codes, scale, zero = _quantize(a)
    return _to_float(codes, b, scale.astype(np.float64), b_scale, zero, b_zero, bias)


def _dynamic_terms(a: np.ndarray, b: np.ndarray, b_scale: np.ndarray, b_zero: np.ndarray | None = None,
                   bias: np.ndarray | None = None) -> Any:  # fmt: skip
    codes, scale, zero = _quantize(a)
    return _float_terms(codes, b, scale.astype(np.float64), b_scale, zero, b_zero, bias)


def _matrix(shape: tuple[int, ...], dtype: str) -> Rand:
    return Rand(shape, dtype, full=True)


def _trimmed(inputs: list[Input]) -> list[Input]:
    while inputs[-1] is None:
        inputs = inputs[:-1]
    return inputs


def _mm(a: tuple[int, ...], b: tuple[int, ...], types: tuple[str, str] = ("uint8", "int8"),
        a_zero: tuple[int, ...] | None = None, b_zero: tuple[int, ...] | None = None, **more: Any) -> Case:  # fmt: skip
    zeros = [None if shape is None else _matrix(shape, of)
             for shape, of in ((a_zero, types[0]), (b_zero, types[1]))]  # fmt: skip
    name = "_".join(["x".join(map(str, shape)) for shape in (a, b)] + [*types] +
                    ["none" if shape is None else "x".join(map(str, shape)) for shape in (a_zero, b_zero)])  # fmt: skip
    return Case(op="MatMulInteger", inputs=_trimmed([_matrix(a, types[0]), _matrix(b, types[1]), *zeros]),
                expected=_integer, opset=10, tolerance=EXACT, name=name, **more)  # fmt: skip


def _linear_case(a: tuple[int, ...], b: tuple[int, ...], types: tuple[str, str, str] = ("uint8", "int8", "uint8"),
                 rows: tuple[int, ...] = (), columns: tuple[int, ...] = (), scale: str = "float32",
                 **more: Any) -> Case:  # fmt: skip
    inputs: list[Input] = [
        _matrix(a, types[0]), Rand(rows, scale, low=0.01, high=0.1), _matrix(rows, types[0]),
        _matrix(b, types[1]), Rand(columns, scale, low=0.01, high=0.1), _matrix(columns, types[1]),
        Of(2.5, scale), _matrix((), types[2]),
    ]  # fmt: skip
    options: dict[str, Any] = {"opset": "10+" if scale == "float32" else 21} | more
    name = f"{'x'.join(map(str, a))}_{'x'.join(map(str, b))}_{'_'.join(types)}_{rows}_{columns}_{scale}"
    return Case(op="QLinearMatMul", inputs=inputs, expected=_linear, tolerance=EXACT,
                name=name.replace(", ", "x").replace(",", ""), **options)  # fmt: skip


def _turned(a: np.ndarray, a_scale: np.ndarray, a_zero: np.ndarray | None, b: np.ndarray, b_scale: np.ndarray,
            b_zero: np.ndarray | None, y_scale: np.ndarray, y_zero: np.ndarray, a_perm: Sequence[int],
            b_perm: Sequence[int], y_perm: Sequence[int]) -> np.ndarray:  # fmt: skip
    zeros = (np.zeros((), value.dtype) if zero is None else zero for value, zero in ((a, a_zero), (b, b_zero)))
    a_zero, b_zero = zeros
    y = _linear(a.transpose(a_perm), a_scale, a_zero, b.transpose(b_perm), b_scale, b_zero, y_scale, y_zero)
    return y.transpose(y_perm)


def _turned_case(a: tuple[int, ...], b: tuple[int, ...], perms: tuple[tuple[int, ...], ...],
                 types: tuple[str, str, str] = ("int8", "int8", "int8"), scale: str = "float32", zeros: bool = True,
                 **more: Any) -> Case:  # fmt: skip
    inputs: list[Input] = [
        _matrix(a, types[0]), Of(0.05, scale), _matrix((), types[0]) if zeros else None,
        _matrix(b, types[1]), Of(0.03, scale), _matrix((), types[1]) if zeros else None,
        Of(2.5, scale), _matrix((), types[2]),
    ]  # fmt: skip
    name = "_".join(["x".join(map(str, dims)) for dims in (a, b, *perms)] + [*types, scale, str(zeros)])
    return Case(op="QuantizedMatMul", domain=FUSED_DOMAIN, inputs=inputs, outputs=[types[2]],
                attrs=dict(zip(("a_perm", "b_perm", "y_perm"), perms, strict=True)),
                **({"expected": _turned, "tolerance": EXACT, "name": name} | more))  # fmt: skip


_SPLIT, _KEYS, _STAY = (0, 2, 1, 3), (0, 2, 3, 1), (0, 1, 2, 3)


def _float_case(a: tuple[int, ...], b: tuple[int, ...], types: tuple[str, str], columns: tuple[int, ...],
                zeros: bool, bias: bool, **more: Any) -> Case:  # fmt: skip
    inputs: list[Input] = [
        _matrix(a, types[0]), _matrix(b, types[1]), Rand((), low=0.001, high=0.01), Rand(columns, low=0.01, high=0.1),
        _matrix((), types[0]) if zeros else None, _matrix(columns, types[1]) if zeros else None,
        Rand((b[-1],)) if bias else None,
    ]  # fmt: skip
    return Case(op="MatMulIntegerToFloat", domain=MICROSOFT, opset=1, inputs=_trimmed(inputs), expected=_to_float,
                magnitude=_float_terms, dtypes=("float32", "float16"),
                name=f"{'_'.join(types)}_{len(a)}_{columns}_{zeros}_{bias}".replace(",", ""), **more)  # fmt: skip


def _dynamic_case(a: tuple[int, ...], b: tuple[int, ...], of: str, columns: tuple[int, ...], zero: bool, bias: bool,
                  **more: Any) -> Case:  # fmt: skip
    inputs: list[Input] = [
        Rand(a, "float32"), _matrix(b, of), Rand(columns, "float32", low=0.01, high=0.1),
        _matrix(columns, of) if zero else None, Rand((b[-1],), "float32") if bias else None,
    ]  # fmt: skip
    return Case(op="DynamicQuantizeMatMul", domain=MICROSOFT, opset=1, inputs=_trimmed(inputs), expected=_dynamic,
                magnitude=_dynamic_terms, name=f"{of}_{a}_{b}_{columns}_{zero}_{bias}".replace(", ", "x"),
                **more)  # fmt: skip


def _qgemm(a: np.ndarray, a_scale: np.ndarray, a_zero: np.ndarray, b: np.ndarray, b_scale: np.ndarray,
           b_zero: np.ndarray, c: np.ndarray | None = None, y_scale: np.ndarray | None = None,
           y_zero: np.ndarray | None = None, **attrs: Any) -> Any:  # fmt: skip
    rows, columns = a.T if attrs.get("transA") else a, b.T if attrs.get("transB") else b
    acc = _sums(rows, columns, a_zero, b_zero) + (0 if c is None else c.astype(np.int64))
    scale = np.float32(attrs.get("alpha", 1)) * a_scale.astype(np.float32) * b_scale.astype(np.float32)
    return acc * scale.astype(np.float64) if y_scale is None else _requantized(acc, scale / np.float32(y_scale), y_zero)


def _qgemm_case(m: int, k: int, n: int, types: tuple[str, str, str] = ("uint8", "int8", "uint8"),
                c: tuple[int, ...] | None = (), columns: tuple[int, ...] = (), attrs: dict[str, Any] | None = None,
                **more: Any) -> Case:  # fmt: skip
    attrs = attrs or {}
    a, b = (k, m) if attrs.get("transA") else (m, k), (n, k) if attrs.get("transB") else (k, n)
    inputs: list[Input] = [
        _matrix(a, types[0]), Of(0.031, "float32"), _matrix((), types[0]),
        _matrix(b, types[1]), Rand(columns, "float32", low=0.01, high=0.1), _matrix(columns, types[1]),
        None if c is None else Rand(c, "int32", low=-20000, high=20000),
        *([] if types[2] == "float32" else [Of(2.5, "float32"), _matrix((), types[2])]),
    ]  # fmt: skip
    name = f"{m}x{k}x{n}_{'_'.join(types)}_{c}_{columns}_{'_'.join(attrs)}".replace(", ", "x").replace(",", "")
    exact = {} if types[2] == "float32" else {"tolerance": EXACT}
    return Case(op="QGemm", domain=MICROSOFT, opset=1, inputs=_trimmed(inputs), expected=_qgemm, attrs=attrs,
                outputs=[types[2]], name=name, **exact, **more)  # fmt: skip


def _qgemm_refusal(name: str, text: str, *changes: tuple[int, Input], y: str = "int8",
                   status: str = "INVALID_ARGUMENT") -> Case:  # fmt: skip
    inputs: list[Input] = [
        Rand((2, 3), "int8"), Of(1, "float32"), Of(0, "int8"), Rand((3, 4), "int8"), Of(1, "float32"), Of(0, "int8"),
        None, Of(1, "float32"), Of(0, "int8"),
    ]  # fmt: skip
    for index, value in changes:
        inputs[index] = value
    return Case(op="QGemm", domain=MICROSOFT, opset=1, inputs=_trimmed(inputs), outputs=[y], name=name,
                error=(status, text))  # fmt: skip


CASES = [
    *(_mm((5, 7), (7, 9), (a, b), a_zero, b_zero) for a in _BYTES for b in _BYTES
      for a_zero, b_zero in ((None, None), ((), ()), ((5,), (9,)))),
    # tiles: whole, one more, one less, several; inner sizes around the depth of a step
    *(_mm((m, k), (k, n), a_zero=(), b_zero=(n,)) for m, k, n in
      ((64, 64, 64), (65, 63, 67), (1, 128, 130), (130, 16, 3), (33, 200, 129), (7, 1, 1), (128, 320, 64))),
    _mm((4, 1024), (1024, 4)),
    *(_mm((37, k), (k, 70), a_zero=(1,), b_zero=(), constants=(1,)) for k in (64, 48, 50)),
    # a library's products: of rows, columns and batches of A; beside them what it does not take
    *(_mm(a, b, ("int8", "int8"), constants=(1,)) for a, b in
      (((64, 64), (64, 64)), ((37, 48), (48, 70)), ((3, 5, 64), (64, 9)), ((64,), (64, 12)), ((130, 320), (320, 128)),
       ((0, 64), (64, 8)), ((5, 50), (50, 8)))),
    *(_mm((37, 64), (64, 72), ("int8", "int8"), a_zero, b_zero, constants=(1,))
      for a_zero, b_zero in (((), None), (None, (72,)))),
    # batches, vectors of rows and columns
    _mm((2, 3, 5, 16), (16, 8), a_zero=(2, 3, 5, 1), b_zero=(8,)),
    _mm((2, 3, 5, 16), (3, 16, 8), a_zero=(), b_zero=(3, 1, 8)),
    _mm((3, 5, 6), (2, 1, 6, 7), b_zero=(2, 1, 1, 7)),
    _mm((2, 1, 5, 6), (1, 3, 6, 7), a_zero=(1, 1, 5, 1), b_zero=(1, 1, 1, 7)),
    _mm((2, 1, 2, 1, 2, 1, 5, 6), (1, 3, 1, 3, 1, 2, 6, 7), b_zero=(7,)),
    _mm((6,), (6, 7), a_zero=(1,), b_zero=(7,)),
    _mm((5, 6), (6,), a_zero=(5,), b_zero=()),
    _mm((6,), (6,)),
    _mm((0, 6), (6, 3)), _mm((2, 0), (0, 3), a_zero=(), b_zero=()), _mm((0, 2, 3), (0, 3, 4)),
    *(_linear_case((5, 20), (20, 9), (a, b, y)) for a in _BYTES for b in _BYTES for y in _BYTES),
    _linear_case((5, 20), (20, 9), rows=(5,), columns=(9,)),
    _linear_case((2, 5, 20), (2, 20, 9), rows=(2, 5, 1), columns=(2, 1, 9)),
    _linear_case((70, 96), (96, 130), columns=(130,), constants=(3,)),
    *(_linear_case((5, 20), (20, 9), scale=scale) for scale in ("float16", "bfloat16")),
    _linear_case((2, 0), (0, 3)), _linear_case((0, 2), (2, 3)),
    *(_float_case((3, 5, 20), (20, 9), (a, b), columns, zeros, bias) for a in _BYTES for b in _BYTES
      for columns, zeros, bias in (((), False, True), ((9,), True, False))),
    _float_case((33, 64), (64, 9), ("uint8", "int8"), (9,), True, True, constants=(1,)),
    *(_dynamic_case((3, 5, 20), (20, 9), of, columns, zero, bias) for of in _BYTES
      for columns, zero, bias in (((), False, True), ((9,), True, False))),
    _dynamic_case((200, 64), (64, 9), "int8", (9,), True, True, constants=(1,)),
    # refusals
    # Axes in other orders: heads are split, keys transposed, heads merged; batches that repeat; nothing to sum or make.
    *(_turned_case((2, 5, 3, 16), (2, 7, 3, 16), (_SPLIT, _KEYS, _STAY), types) for types in
      [(a, b, y) for a in _BYTES for b in _BYTES for y in _BYTES]),
    *(_turned_case((2, 3, 5, 7), (2, 7, 3, 16), (_STAY, _SPLIT, _SPLIT), scale=scale, zeros=zeros)
      for scale in ("float32", "float16", "bfloat16") for zeros in (True, False)),
    *(_turned_case(a, b, perms) for a, b, perms in [
        ((2, 70, 3, 64), (2, 130, 3, 64), (_SPLIT, _KEYS, _STAY)),
        ((1, 5, 3, 16), (2, 7, 1, 16), (_SPLIT, _KEYS, _SPLIT)),
        ((2, 5, 3, 0), (2, 7, 3, 0), (_SPLIT, _KEYS, _STAY)),
        ((0, 5, 3, 16), (0, 7, 3, 16), (_SPLIT, _KEYS, _STAY)),
        ((2, 5, 3, 16), (2, 0, 3, 16), (_SPLIT, _KEYS, _STAY)),
        ((5, 16), (7, 16), ((0, 1), (1, 0), (0, 1))),
        ((2, 3, 4, 5, 6), (3, 6, 2, 4, 9), ((1, 0, 2, 3, 4), (0, 2, 3, 1, 4), (2, 0, 1, 3, 4))),
    ]),
    *(_turned_case(a, b, perms, error=error, expected=None, name=error[1]) for a, b, perms, error in [
        ((5, 16), (16, 7), ((1, 0), (0, 1), (0, 1)), ("NOT_SUPPORTED", "elements are apart both ways")),
        ((5, 16), (16, 7), ((0, 0), (0, 1), (0, 1)), ("INVALID_ARGUMENT", "[0,0] is not a permutation of 2")),
        ((5,), (5,), ((0,), (0,), (0,)), ("NOT_SUPPORTED", "tensors of rank 1")),
        ((5, 15), (16, 7), ((0, 1), (0, 1), (0, 1)), ("INVALID_ARGUMENT", "the product of [5,15] and [16,7]")),
        ((2, 5, 16), (3, 16, 7), ((0, 1, 2),) * 3, ("INVALID_ARGUMENT", "of the batch")),
        ((2, 5, 16), (16, 7), ((0, 1, 2),) * 3, ("INVALID_ARGUMENT", "rank 2 where 3 is stated")),
    ]),
    Case(op="MatMulInteger", inputs=[Rand((2, 3), "int8"), Rand((3, 4), "int8"), Rand((3,), "int8")], opset=10,
         outputs=["int32"], error=("INVALID_ARGUMENT", "zero point of A [3] fits no rows of [2,3]"), name="a_zero"),
    Case(op="MatMulInteger", inputs=[Rand((2, 3), "int8"), Rand((3, 4), "int8"), None, Rand((1, 1, 4), "int8")],
         opset=10, outputs=["int32"], error=("INVALID_ARGUMENT", "zero point of B [1,1,4] fits no"), name="b_zero"),
    Case(op="MatMulInteger", inputs=[Rand((2, 3), "int8"), Rand((4, 4), "int8")], opset=10, outputs=["int32"],
         error=("INVALID_ARGUMENT", "inner dimensions"), name="inner"),
    Case(op="MatMulIntegerToFloat", domain=MICROSOFT, opset=1, outputs=["float32"], name="bias",
         inputs=[Rand((2, 3), "int8"), Rand((3, 4), "int8"), Rand((), "float32"), Rand((), "float32"), None, None,
                 Rand((3,), "float32")], error=("INVALID_ARGUMENT", "bias [3] must have 4")),
    Case(op="QLinearMatMul", opset=21, outputs=["int8"], name="y_scale",
         inputs=[Rand((2, 3), "int8"), Rand((), "float32"), Rand((), "int8"), Rand((3, 4), "int8"),
                 Rand((), "float32"), Rand((), "int8"), Rand((4,), "float32"), Rand((), "int8")],
         error=("INVALID_ARGUMENT", "scale of Y [4] must be one")),
    # QGemm: every C, both transpositions, a scale for each column
    *(_qgemm_case(5, 20, 9, (a, b, y), (9,)) for a in _BYTES for b in _BYTES for y in (*_BYTES, "float32")),
    *(_qgemm_case(5, 20, 9, ("uint8", "int8", y), c, (9,)) for y in ("uint8", "float32")
      for c in (None, (), (1,), (9,), (1, 9), (5, 1), (5, 9))),
    *(_qgemm_case(70, 48, 65, c=(70, 1), columns=(65,), attrs=attrs, constants=(3,))
      for attrs in ({"transA": 1}, {"transB": 1}, {"transA": 1, "transB": 1, "alpha": 0.37}, {"alpha": 1.7})),
    _qgemm_case(1, 50, 33, ("int8", "int8", "float32"), (33,), attrs={"transB": 1}),
    _qgemm_case(3, 0, 4, c=(4,)), _qgemm_case(0, 3, 4), _qgemm_case(2, 3, 0, attrs={"transA": 1}),
    _qgemm_refusal("inner", "inner dimensions", (3, Rand((4, 4), "int8"))),
    _qgemm_refusal("c", "C [3] does not broadcast", (6, Rand((3,), "int32"))),
    _qgemm_refusal("a_scale", "scale of A [2] must be one", (1, Rand((2,), "float32"))),
    _qgemm_refusal("b_zero", "zero point of B [3] must have one element or 4", (5, Rand((3,), "int8"))),
    _qgemm_refusal("y_zero", "an output of int8 needs scale and zero point", (7, None)),
    # DynamicQuantizeLinear: one block, several, unaligned ends, extremes of one sign, zeros
    *(Case(op="DynamicQuantizeLinear", inputs=[Rand(shape, "float32", low=low, high=high)], outputs=3, opset=11,
           expected=_quantize, tolerance={"float32": Tolerance(1), "uint8": EXACT},
           name=f"{'x'.join(map(str, shape))}_{low}_{high}")
      for shape, low, high in (((3, 5), -2, 5), ((8192,), -1, 1), ((8193,), -3, 1), ((3, 40001), -1, 2), ((77,), 1, 3),
                               ((77,), -3, -1), ((), 1, 2), ((1,), -2, -1), ((0,), 0, 1))),
    Case(op="DynamicQuantizeLinear", inputs=[Of(np.zeros(9), "float32")], outputs=3, opset=11, expected=_quantize,
         name="zeros"),
]  # fmt: skip
