"""The Elementwise that compiled regions make: chains of functions of inputs that broadcast to one shape."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..harness import Case, Of, Rand, T, Tolerance
from ..harness.chains import COMPARED, LOGIC, NUMBER, ONE, TO_BOOL, TWO, chain
from ..harness.inputs import Input, shape_of
from ..harness.magnitudes import of_argument
from ..harness.schemas import FUSED_DOMAIN

_FLOATS = ("float32", "float16", "bfloat16")

Term = tuple[Any, ...]  # a function, its operands, and its numbers as floats


def _case(
    inputs: Sequence[Input],
    *terms: Term,
    results: Sequence[int] | None = None,
    outputs: Sequence[str] = (T,),
    dtypes: Sequence[str] = _FLOATS,
    error: tuple[str, str] | None = None,
    **more: Any,
) -> Case:
    operands, numbers = [], []
    for _, *values in terms:
        own = [value for value in values if isinstance(value, int)]
        operands += (own + [NUMBER] * 3)[:3]
        numbers += ([value for value in values if isinstance(value, float)] + [0.0, 0.0])[:2]
    return Case(
        op="Elementwise",
        domain=FUSED_DOMAIN,
        inputs=inputs,
        attrs={
            "functions": [term[0] for term in terms],
            "operands": operands,
            "numbers": numbers,
            "results": [len(inputs) + len(terms) - 1] if results is None else results,
        },
        expected=None if error else chain,
        error=error,
        dtypes=dtypes,
        outputs=outputs,
        name=more.pop("name", "") or "-".join([*(term[0] for term in terms), *map(str, map(shape_of, inputs))]),  # type: ignore[arg-type]
        **more,
    )


_X = Rand((3, 40))
_POSITIVE = Rand((3, 40), low=0.25, high=4.0)
_TAILS = Rand((3, 40), low=-3.0, high=3.0)
_C = Rand((3, 40), "bool")
_CODES = Rand((256,), "int8")
_INT8 = {"outputs": ("int8",)}
_MULTIPLES = Of([[41.0 * i for i in range(-4, 5)]])  # which 16 bits hold
# The chain's fp32 keeps what 16 bits would lose; several roundings of fp32 show in its own type alone.
_SEVERAL = {"float32": Tolerance(16, terms=16)}


def _sizes(*inputs: Any, functions: Sequence[str], numbers: Sequence[float], **attributes: Any) -> Any:
    """What sums come to without the signs of their terms."""
    sizes = [value if np.asarray(value).dtype == bool else np.abs(value) for value in inputs]
    sums = ["Add" if function == "Sub" else function for function in functions]
    return chain(*sizes, functions=sums, numbers=[abs(number) for number in numbers], **attributes)


# What an ulp of what is below the exponential makes of the result.
_GELUS = {name: lambda x, f=ONE[name][0], **_: of_argument(f)(x) for name in ("Gelu", "GeluTanh")}


def _mixed(*shapes: Sequence[int]) -> tuple[list[Rand], list[Term]]:
    """A chain of all kinds of steps over inputs of the given shapes; the first has the result's."""
    x, y, z = 0, 1 % len(shapes), 2 % len(shapes)
    first = len(shapes)
    terms: list[Term] = [
        ("Mul", x, NUMBER, 0.5),
        ("Add", first, NUMBER, 0.25),
        ("Add", first + 1, y),
        ("Relu", first + 2),
        ("Mul", first + 3, z),
        ("Sigmoid", first + 4),
        ("Sub", first + 4, first + 5),
        ("Clamp", first + 6, -1.0, 3.0),
        ("Less", first + 7, y),
        ("Where", first + 8, first + 7, first + 3),
        ("Max", first + 9, NUMBER, -0.5),
        ("Abs", first + 10),
        ("Add", first + 11, x),
    ]
    return [Rand(shape) for shape in shapes], terms


_BROADCASTS: list[tuple[tuple[int, ...], ...]] = [
    ((3, 40), (3, 40), (3, 40)),
    ((3, 40), (40,), (1,)),
    ((3, 40), (), (3, 1)),
    ((5, 7), (7,), (5, 1)),  # rows of no pack
    ((2, 3, 4, 8), (3, 1, 1), (2, 1, 4, 8)),
    ((2, 3, 5, 7), (3, 1, 7), (2, 1, 5, 1)),
    ((1003,), (1003,), (1,)),  # a tail
    ((1,), (1,), (1,)),
    ((), (), ()),
    ((4, 1, 6), (1, 5, 1), (1, 1, 6)),  # none has the result's shape
    ((0, 8), (8,), ()),
    ((2, 1, 3, 1, 2, 1, 3, 1), (1, 2, 1, 3, 1, 2, 1, 8), (2, 2, 3, 3, 2, 2, 3, 8)),
]

CASES = [
    *(
        _case(
            [_POSITIVE if name in ("Log", "Sqrt") else _TAILS if name.startswith("Gelu") else _X],
            (name, 0, *numbers),
            tolerance={"float32": Tolerance(8)},
            magnitude=_sizes if name == "HardSwish" else _GELUS.get(name),
        )
        for name, (_, numbers) in ONE.items()
    ),
    *(
        _case([Rand((3, 40), specials=True)], (name, 0, *ONE[name][1]), tolerance={"float32": Tolerance(8)})
        for name in (
            *("Affine", "Relu", "LeakyRelu", "Abs", "Exp", "Sqrt", "Sigmoid", "Tanh", "Softplus", "Sign"),
            "Quantize",
        )
    ),
    *(_case([Rand((3, 40), specials=True)], (name, 0), outputs=("bool",)) for name in TO_BOOL),
    # Two operands: both tensors, a number on either side, the same one twice, what was computed on either side.
    *(
        _case(
            [_POSITIVE, Rand((3, 40), low=0.5, high=3.0)],
            *terms,
            tolerance={"float32": Tolerance(8)},
            magnitude=_sizes if name == "Sub" else None,
        )
        for name in TWO
        for terms in [
            [(name, 0, 1)],
            [(name, 0, NUMBER, 1.75)],
            [(name, NUMBER, 0, 1.75)],
            [("Abs", 1), (name, 2, 2)],
            [(name, 0, 0)],
            [("Sqrt", 0), (name, 2, 1)],
            [("Sqrt", 0), (name, 1, 2)],
            [("Sqrt", 0), ("Abs", 1), (name, 2, 3)],
            [("Sqrt", 0), ("Abs", 1), (name, 3, 2)],
        ]
    ),
    *(_case([Rand((3, 40), specials=True), Rand((40,), specials=True)], (name, 0, 1)) for name in ("Max", "Min")),
    *(
        _case([_POSITIVE], ("Pow", 0, NUMBER, exponent), tolerance={"float32": Tolerance(8)})
        for exponent in (0.5, 1.0, 2.0, 3.0, -1.5)
    ),
    *(_case([_X], ("Div", 0, NUMBER, number)) for number in (3.0, 1e-30, 0.0)),
    # Whole quotients are whole, also in 16 bits and of integers.
    *(_case([_MULTIPLES], ("Div", 0, NUMBER, 41.0), (name, 1)) for name in ("Floor", "Ceil")),
    _case(
        [Of(_MULTIPLES.values, "int64")],
        ("Float32", 0, 1.0, -0.0),
        ("Div", 1, NUMBER, 41.0),
        ("Less", 2, NUMBER, 1.0),
        outputs=("bool",),
        dtypes=(),
    ),
    *(
        _case([Rand((3, 40), low=-2.0, high=2.0, specials=True), _X], *terms, outputs=("bool",))
        for name in COMPARED
        for terms in [[(name, 0, 1)], [(name, 0, NUMBER, 0.5)], [(name, NUMBER, 0, 0.5)], [(name, 0, 0)]]
    ),
    *(
        _case([_C, Rand((40,), "bool")], *terms, outputs=("bool",), dtypes=())
        for name in LOGIC
        for terms in [[(name, 0, 1)], [("Not", 0), (name, 1, 2)], [(name, 0, 1), ("Not", 2)]]
    ),
    # Where: operands from memory, numbers, what was computed before or last.
    *(
        _case([_C, _X, Rand((40,))], *terms)
        for terms in [
            [("Where", 0, 1, 2)],
            [("Where", 0, NUMBER, 2, 0.5)],
            [("Where", 0, 1, NUMBER, -65504.0)],
            [("Where", 0, NUMBER, NUMBER, 1.0, -2.0)],
            [("Where", 0, 1, 1)],
            [("Not", 0), ("Where", 3, 1, 2)],
            [("Less", 1, 2), ("Where", 3, 1, 2)],
            [("Less", 1, 2), ("Where", 3, NUMBER, 2, 1.0)],
            [("Abs", 1), ("Where", 0, 3, 2)],
            [("Abs", 1), ("Where", 0, 2, 3)],
            [("Abs", 1), ("Relu", 2), ("Less", 3, 4), ("Where", 5, 3, 4)],
            [("Abs", 1), ("Less", 3, 2), ("Where", 4, 2, 3), ("Where", 4, 5, 3)],
        ]
    ),
    _case([_C, Rand((3, 40), "bool")], ("Not", 0), ("Where", 2, 1, 0), outputs=("bool",), dtypes=()),
    # Shapes, with steps of every kind.
    *(
        _case(inputs, *terms, tolerance=_SEVERAL, magnitude=_sizes, name="x".join(map(str, shapes)))
        for shapes in _BROADCASTS
        for inputs, terms in [_mixed(*shapes)]
    ),
    *(
        _case(inputs, *terms, tolerance=_SEVERAL, magnitude=_sizes, dtypes=("float32", "float16"), name=name)
        for name, shapes in [
            ("wide", ((1 << 20,), (1,), (1 << 20,))),
            ("wide-rows", ((8256, 128), (128,), (8256, 1))),
            ("wide-tail", (((1 << 20) + 21,), ((1 << 20) + 21,), (1,))),
            ("wide-odd-rows", ((8193, 129), (129,), (8193, 129))),
        ]
        for inputs, terms in [_mixed(*shapes)]
    ),
    # Types.
    *(
        _case([Rand((3, 40), source)], (name, 0), ("Affine", 1, 0.5, -0.0), outputs=(T,))
        for source, name in [("int64", "Float16"), ("int32", "BFloat16"), ("float32", "Float16")]
    ),
    *(
        _case([Rand((3, 40), source), _X], ("Affine", 0, -1.0, 1.0), ("Mul", 1, 2))
        for source in ("int64", "int32", "bool", "float32", "float16", "bfloat16")
    ),
    *(_case([_X, Rand((40,))], ("Add", 0, 1), ("Relu", 2), results=[3, 2], outputs=(T, other)) for other in _FLOATS),
    # Codes of 8 bits, that come, go, or both: in rows, odd rows, wide ones and with a tail.
    *(
        _case(
            [Rand(shape, low=-4.0, high=4.0, specials=True)],
            ("Quantize", 0, 0.0173, lowest - 3.0),
            ("Affine", 1, 1.0, 3.0),
            outputs=(codes,),
            dtypes=("float32", "float16"),
            name=f"to_{codes}_{len(shape)}_{shape[-1]}",
        )
        for codes, lowest in (("int8", -128.0), ("uint8", 0.0))
        for shape in ((3, 40), (5, 7), (1 << 20,), (1003,))
    ),
    *(
        _case(
            [Rand((3, 40), codes, full=True), Rand((40,), "int32", low=-70000, high=70000), Rand((40,), "float32")],
            ("Affine", 0, 1.0, -7.0),
            ("Affine", 3, 0.0625, -0.0),
            ("Mul", 1, 2),
            ("Add", 4, 5),
            ("Quantize", 6, 700.0, lowest),
            results=[7, 6],
            outputs=(codes, "float32"),
            dtypes=(),
            tolerance={"float32": Tolerance(4)},
            name=f"codes_{codes}",
        )
        for codes, lowest in (("int8", -128.0), ("uint8", 0.0))
    ),
    # Tables of codes: of those that come and of those that were made, and the same one twice.
    *(
        _case(
            [Rand(shape, codes, full=True), Rand((256,), table, full=True)],
            ("LookUp", 0, 1, lowest),
            outputs=(table,),
            dtypes=(),
            name=f"table_{codes}_{table}_{len(shape)}_{shape[-1]}",
        )
        for codes, lowest in (("int8", -128.0), ("uint8", 0.0))
        for table in ("int8", "uint8")
        for shape in ((3, 40), (5, 7), (0, 8), (1 << 20,), (1003,))
    ),
    *(
        _case(
            [_X, Rand((256,), table, full=True), Rand((40,))],
            ("Add", 0, 2),
            ("Quantize", 3, 0.0173, lowest - 3.0),
            ("Affine", 4, 1.0, 3.0),
            ("LookUp", 5, 1, lowest),
            ("LookUp", 6, 1, lowest),
            results=[7, 6],
            outputs=(table, table),
            dtypes=("float32",),
            name=f"table_of_{table}_twice",
        )
        for table, lowest in (("int8", -128.0), ("uint8", 0.0))
    ),
    _case(
        [_X, Rand((40,))],
        ("Add", 0, 1),
        ("Less", 2, NUMBER, 0.5),
        ("Where", 3, 2, 0),
        ("Abs", 4),
        results=[5, 2, 3, 4],
        outputs=(T, "float32", "bool", T),
    ),
    _case([Rand((3, 1)), Rand((1, 40))], ("Add", 0, 1), ("Sub", 0, 1), results=[3, 2], outputs=(T, T)),
    # Eight inputs, which nine terms sum; the first is read twice.
    _case(
        [Rand((3, 40)), *(Rand((40,)) for _ in range(6)), Rand((3, 1))],
        *(("Add", i if i == 0 else 7 + i, i + 1) for i in range(7)),
        ("Mul", 14, 0),
        ("Add", 15, 0),
        magnitude=_sizes,
        tolerance=_SEVERAL,
    ),
    # A balanced tree, whose values wait for each other.
    _case(
        [Rand((3, 40), low=0.5, high=2.0) for _ in range(8)],
        *(("Sqrt", i) for i in range(8)),
        *(("Mul", 8 + 2 * i, 9 + 2 * i) for i in range(4)),
        *(("Add", 16 + 2 * i, 17 + 2 * i) for i in range(2)),
        ("Sub", 20, 21),
        magnitude=_sizes,
        tolerance=_SEVERAL,
    ),
    # As long as they come: with a load, a copy that is kept and a store 47 steps.
    _case(
        [_POSITIVE, Rand((40,), low=0.5, high=1.5)],
        *(("Add" if i % 2 else "Mul", 0 if i == 0 else 1 + i, 1) for i in range(44)),
        magnitude=_sizes,
        tolerance={"float32": Tolerance(64, terms=64)},
    ),
    # What is refused.
    *(
        _case(inputs, *terms, dtypes=("float32",), error=error, **more)
        for inputs, terms, error, more in [
            ([_X], [("Sinc", 0)], ("NOT_SUPPORTED", "function 'Sinc' of a chain"), {}),
            ([_X], [("Add", 0, 3)], ("INVALID_ARGUMENT", "operand 3 of Add, which has 1 values before it"), {}),
            ([_X], [("Relu", NUMBER)], ("INVALID_ARGUMENT", "operand -1 of Relu"), {}),
            ([_X], [("Add", NUMBER, NUMBER)], ("INVALID_ARGUMENT", "Add of numbers alone"), {}),
            ([_X], [("Where", NUMBER, 0, 0)], ("INVALID_ARGUMENT", "operand -1 of Where"), {}),
            ([_X], [("Relu", 0)], ("INVALID_ARGUMENT", "result 0 is no term"), {"results": [0]}),
            ([_X], [("Relu", 0), ("Abs", 1)], ("INVALID_ARGUMENT", "the first is the last term"), {"results": [1]}),
            ([_X], [("Relu", 0)], ("INVALID_ARGUMENT", "0 results for 1 outputs"), {"results": []}),
            ([_X], [("Quantize", 0, 0.0, -128.0)], ("NOT_SUPPORTED", "a scale of 0"), {}),
            ([_X], [("LookUp", 0, NUMBER, 0.0)], ("INVALID_ARGUMENT", "a table that is no input"), {}),
            ([_X], [("Abs", 0), ("LookUp", 0, 1, 0.0)], ("INVALID_ARGUMENT", "a table that is no input"), {}),
            ([_X, Rand((256,))], [("LookUp", 0, 1, 0.0)], ("NOT_SUPPORTED", "a table of type float"), {}),
            (
                [_CODES, _CODES],
                [("LookUp", 1, 1, 0.0)],
                ("INVALID_ARGUMENT", "input 1 is a table and an operand"),
                _INT8,
            ),
            (
                [_CODES, Rand((255,), "int8")],
                [("LookUp", 0, 1, 0.0)],
                ("INVALID_ARGUMENT", "table 1 has dimensions [255]"),
                _INT8,
            ),
            ([_X] * 9, [("Relu", 0)], ("NOT_SUPPORTED", "9 inputs and 1 outputs"), {}),
            (
                [Rand((3, 40), "float64")],
                [("Relu", 0)],
                ("NOT_SUPPORTED", "input type double"),
                {"outputs": ("float32",)},
            ),
            ([_X, Rand((3, 41))], [("Add", 0, 1)], ("INVALID_ARGUMENT", "[3,41]"), {}),
            (
                [Rand((40,)), _X],
                [("Relu", 0), ("Add", 2, 1)],
                ("INVALID_ARGUMENT", "result 1 has dimensions [40], the chain [3,40]"),
                {"results": [3, 2], "outputs": ("T", "T")},
            ),
            ([_X], [("Relu" if i % 2 else "Abs", i) for i in range(46)], ("NOT_SUPPORTED", "more than 47 steps"), {}),
            (
                [_X],
                [
                    ("Exp", 0),
                    *(("Affine", 1 + i, 1.5, 0.5) for i in range(5)),
                    *(("Mul", 6 + i, 5 - i) for i in range(5)),
                ],
                ("NOT_SUPPORTED", "more than 4 values at once"),
                {},
            ),
        ]
    ),
]
