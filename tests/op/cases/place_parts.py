"""PlaceParts, which compiled regions make of a Concat of which other operators make some parts in place."""

from ..harness import Case, Rand
from ..harness.dtypes import FIXED_SIZE
from ..harness.schemas import FUSED_DOMAIN
from ..harness.tolerances import EXACT


def _placed(whole, *parts, firsts):
    y = whole.copy()
    for first, part in zip(firsts, parts, strict=True):
        y[..., first : first + part.shape[-1]] = part
    return y


def _case(shapes, firsts, **more):
    more = {"expected": _placed, "tolerance": EXACT} | more
    return Case(
        op="PlaceParts", domain=FUSED_DOMAIN, inputs=[Rand(s) for s in shapes], attrs={"firsts": firsts}, **more
    )


CASES = [
    _case([(2, 3, 12), (2, 3, 4)], [8], dtypes=FIXED_SIZE),
    *(
        _case(shapes, firsts, dtypes=("float16", "float32", "int8"))
        for shapes, firsts in [
            ([(2, 5, 7, 48), (2, 5, 7, 8), (2, 5, 7, 16)], [40, 8]),
            ([(2, 5, 7, 33), (2, 5, 7, 3), (2, 5, 7, 1)], [0, 32]),
            ([(6,), (2,), (0,)], [4, 6]),
            ([(0, 6), (0, 2)], [1]),
            ([(700, 1040), (700, 1024)], [16]),
        ]
    ),
    *(
        _case(shapes, firsts, dtypes=("float16",), expected=None, error=("INVALID_ARGUMENT", text))
        for shapes, firsts, text in [
            ([(2, 6)], [], "there are 1 inputs for 0 places"),
            ([(2, 6), (2, 2)], [1, 2], "there are 2 inputs for 2 places"),
            ([(2, 6), (2, 2)], [5], "input 1 of shape [2,2] has no place in [2,6] from 5 on"),
            ([(2, 6), (2, 2)], [-1], "from -1 on"),
            ([(2, 6), (3, 2)], [0], "input 1 of shape [3,2] has no place"),
            ([(2, 6), (2,)], [0], "input 1 of shape [2] has no place"),
        ]
    ),
]
