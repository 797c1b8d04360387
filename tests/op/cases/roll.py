"""Roll, which compiled regions make of torch.roll and what moves data around it."""

import numpy as np

from ..harness import Case, Rand
from ..harness.dtypes import COMPLEX, NUMERIC
from ..harness.schemas import FUSED_DOMAIN
from ..harness.tolerances import EXACT


def _roll(x, source_dims, source_perm, dims, shifts, target_dims, target_perm, shape):
    y = x.reshape(source_dims).transpose(source_perm).reshape(dims)
    y = np.roll(y, [-shift for shift in shifts], tuple(range(len(shifts))))
    return y.reshape(target_dims).transpose(target_perm).reshape(shape)


def _plain(dims, shifts):
    order = list(range(len(dims)))
    return {
        "source_dims": dims, "source_perm": order, "dims": dims, "shifts": shifts,
        "target_dims": dims, "target_perm": order, "shape": dims,
    }  # fmt: skip


def _windows(height, width, window, channels, shift):
    """An image that is moved and cut into windows."""
    down, along = height // window, width // window
    image = [-1, height, width, channels]
    return _plain(image, [0, shift, shift, 0]) | {
        "target_dims": [-1, down, window, along, window, channels],
        "target_perm": [0, 1, 3, 2, 4, 5],
        "shape": [-1, window * window, channels],
    }


def _image(height, width, window, channels, shift):
    """Windows that are put together and moved back."""
    down, along = height // window, width // window
    image = [-1, height, width, channels]
    return _plain(image, [0, height - shift, width - shift, 0]) | {
        "source_dims": [-1, down, along, window, window, channels],
        "source_perm": [0, 1, 3, 2, 4, 5],
    }


def _case(shape, attrs, dtypes=("float16",), **more):
    return Case(
        op="Roll",
        domain=FUSED_DOMAIN,
        inputs=[Rand(shape)],
        attrs=attrs,
        dtypes=dtypes,
        expected=_roll,
        tolerance=EXACT,
        **more,
    )


CASES = [
    *(
        _case(shape, _plain(dims, shifts), (*NUMERIC, "bool", *COMPLEX))
        for shape, dims, shifts in [
            ((2, 6, 10, 8), [-1, 6, 10, 8], [0, 2, 7, 0]),
            ((3, 5, 7), [3, 5, 7], [1, 0, 3]),
        ]
    ),
    *(
        _case(shape, _plain(dims, shifts))
        for shape, dims, shifts in [
            ((5,), [5], [2]),
            ((4, 16), [4, 16], [0, 8]),
            ((4, 24), [4, 24], [3, 8]),
            ((4, 16), [4, 16], [0, 5]),
            ((1,), [1], [0]),
            ((1, 1, 3), [1, 1, 3], [0, 0, 1]),
            ((2, 3, 1), [2, 3, 1], [1, 2, 0]),
            ((0, 4, 8), [-1, 4, 8], [0, 1, 0]),
            ((600, 9, 40), [-1, 9, 40], [0, 4, 0]),
            ((1100, 1033), [1100, 1033], [7, 1000]),
        ]
    ),
    *(
        _case(shape, attrs, ("float16", "float32", "uint8", "complex64"))
        for shape, attrs in [
            ((2, 8, 12, 16), _windows(8, 12, 4, 16, 2)),
            ((2, 8, 12, 3), _windows(8, 12, 4, 3, 1)),
            ((2 * 6, 16, 16), _image(8, 12, 4, 16, 2)),
            ((2 * 6, 16, 3), _image(8, 12, 4, 3, 1)),
            ((0, 8, 12, 16), _windows(8, 12, 4, 16, 2)),
            ((1, 4, 4, 8), _windows(4, 4, 4, 8, 3)),
        ]
    ),
    # Both sides in another order, with parts of the last axis turned.
    _case(
        (2, 3, 4, 10),
        {
            "source_dims": [2, 3, 4, 5, 2],
            "source_perm": [2, 0, 1, 4, 3],
            "dims": [4, 6, 10],
            "shifts": [1, 5, 4],
            "target_dims": [2, 2, 6, 2, 5],
            "target_perm": [4, 1, 0, 3, 2],
            "shape": [5, -1, 6],
        },
    ),
    *(
        Case(
            op="Roll",
            domain=FUSED_DOMAIN,
            inputs=[Rand((2, 6), "float16")],
            attrs=_plain([2, 6], [0, 1]) | attrs,
            error=("INVALID_ARGUMENT", text),
        )
        for attrs, text in [
            ({"dims": [-1, -1]}, "dims [-1,-1] must be sizes, of which one may be -1"),
            ({"shape": [0, 6]}, "shape [0,6] must be sizes"),
            ({"shape": [5, -1]}, "a tensor of shape [2,6] has no dimensions [5,-1]"),
            ({"dims": [3, 6]}, "a tensor of shape [2,6] has no dimensions [3,6]"),
            ({"source_perm": [0, 0]}, "do not fit [2,6]"),
            ({"target_perm": [1]}, "do not fit [2,6]"),
            ({"target_perm": [2, 0]}, "do not fit [2,6]"),
            ({"shifts": [0, 6]}, "do not fit [2,6]"),
            ({"shifts": [0, -1]}, "do not fit [2,6]"),
            ({"shifts": [0]}, "do not fit [2,6]"),
            ({"source_dims": [4, 3]}, "do not fit [2,6]"),
        ]
    ),
    Case(
        op="Roll",
        domain=FUSED_DOMAIN,
        inputs=[Rand((2, 1), "float16")],
        attrs=_plain([2, *[1] * 8], [0] * 9),
        error=("NOT_SUPPORTED", "are too many"),
    ),
]
