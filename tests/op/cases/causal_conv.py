"""com.microsoft's CausalConvWithState over sequences: both layouts, states, windows, slices, captures; judged in
float64."""

from typing import Any

import numpy as np

from ..harness import MICROSOFT, Case, Rand, Tolerance
from ..harness.inputs import Input

TYPES = ("float32", "float16", "bfloat16")


def expected(
    x: np.ndarray, w: np.ndarray, bias: np.ndarray | None = None, past: np.ndarray | None = None, dilation: int = 1,
    activation: str = "none", state_window: int = 0, channels_last: int = 0, state_length: int = 0,
    state_channels_last: int = -1, input_channel_offset: int = 0, input_channels: int = 0,
    state_update_capacity: int = 0, ndim: int = 1,
) -> tuple[np.ndarray, ...]:  # fmt: skip
    del ndim
    channels, taps = w.shape[0], w.shape[2]
    shape = x.shape
    rows = x.reshape(shape[0], shape[1], int(np.prod(shape[2:]))).swapaxes(1, 2) if channels_last else x
    rows = rows[:, input_channel_offset : input_channel_offset + channels]
    batch, _, length = rows.shape
    history = state_length or (taps - 1) * dilation
    state_last = channels_last if state_channels_last < 0 else state_channels_last
    state = np.zeros((batch, channels, history))
    if past is not None:
        last = past[-1] if state_window else past
        state = last.reshape(batch, history, channels).swapaxes(1, 2) if state_last else last
    line = np.concatenate([state, rows], 2)
    y = np.zeros(rows.shape) if bias is None else np.broadcast_to(bias[:, None], rows.shape).copy()
    for tap in range(taps):
        first = history - (taps - 1 - tap) * dilation
        y += w[:, 0, tap, None] * line[:, :, first : first + length]
    if activation != "none":
        y = y / (1 + np.exp(-y))
    slots = []
    for slot in range(max(state_window, 1)):
        steps = length - max(state_window, 1) + 1 + slot
        known = steps > 0 or slot + 1 == max(state_window, 1)
        one = line[:, :, max(steps, 0) : max(steps, 0) + history] if known else np.zeros(state.shape)
        slots.append(one.swapaxes(1, 2) if state_last else one)
    inner = shape[2:] if channels_last and not input_channels else (channels,)
    present = np.stack(slots)
    if state_last:
        present = present.reshape(len(slots), batch, history, *inner)
    updates = np.zeros((batch, state_update_capacity, channels))
    count = min(length, state_update_capacity)
    updates[:, :count] = rows.swapaxes(1, 2)[:, :count]
    if channels_last:
        y = y.swapaxes(1, 2).reshape(*shape[:2], *inner)
    return y, present if state_window else present[0], updates


def _magnitude(x: np.ndarray, *rest: Any, **attrs: Any) -> tuple[Any, ...]:
    """SiLU is no steeper than 1.1."""
    linear = {name: value for name, value in attrs.items() if name != "activation"}
    inputs = (np.abs(values) if values is not None else None for values in (x, *rest))
    return 1.1 * expected(*inputs, **linear)[0], 0.0, 0.0


def _case(
    shape: tuple[int, ...], taps: int = 4, *, bias: bool = True, past: bool = True, dtypes: Any = ("float32",),
    specials: bool = False, **attrs: Any,
) -> Case:  # fmt: skip
    last = attrs.get("channels_last", 0)
    channels = attrs.get("input_channels", 0) or (int(np.prod(shape[2:])) if last else shape[1])
    channels -= 0 if attrs.get("input_channels", 0) else attrs.get("input_channel_offset", 0)
    extended = {"state_length", "state_channels_last", "input_channel_offset", "input_channels",
                "state_update_capacity"} & set(attrs)  # fmt: skip
    history = attrs.get("state_length", 0) or (taps - 1) * attrs.get("dilation", 1)
    window = attrs.get("state_window", 0)
    state_last = last if attrs.get("state_channels_last", -1) < 0 else attrs["state_channels_last"]
    inner = (channels,) if extended or not last else shape[2:]
    state = (shape[0], history, *inner) if state_last else (shape[0], channels, history)
    inputs: list[Input] = [
        Rand(shape, specials=specials), Rand((channels, 1, taps)), Rand((channels,)) if bias else None,
        Rand(((window,) if window else ()) + state) if past else None,
    ]  # fmt: skip
    while inputs[-1] is None:
        inputs.pop()
    named = ["x".join(map(str, (*shape, taps))), *(f"{k}={v}" for k, v in attrs.items())]
    named += [name for name, on in (("plain", not bias), ("zeros", not past), ("specials", specials)) if on]
    return Case(op="CausalConvWithState", domain=MICROSOFT, opset=1, inputs=inputs, dtypes=dtypes, expected=expected,
                magnitude=_magnitude, attrs=attrs, name="-".join(named), tolerance=Tolerance(1),
                outputs=3 if attrs.get("state_update_capacity") else 2)  # fmt: skip


def _refused(text: str, *shapes: tuple[int, ...] | None, code: str = "INVALID_ARGUMENT", **attrs: Any) -> Case:
    return Case(op="CausalConvWithState", domain=MICROSOFT, opset=1, dtypes=("float32",), outputs=2,
                inputs=[None if shape is None else Rand(shape) for shape in shapes], error=(code, text), attrs=attrs,
                name=text.replace(" ", "_"),
                skip={"session": "the host's shape inference may refuse first"})  # fmt: skip


_X, _W = (2, 3, 6), (3, 1, 4)

CASES = [
    *(_case((2, 5, length), past=past, bias=past) for length in (0, 1, 2, 7, 300) for past in (True, False)),
    *(_case((2, length, 5), past=past, channels_last=1) for length in (0, 1, 2, 7, 300) for past in (True, False)),
    _case((2, 6, 9), dtypes=TYPES),
    _case((2, 6, 9), activation="silu", dtypes=TYPES),
    _case((2, 8, 5), activation="swish", channels_last=1, dtypes=TYPES),
    _case((2, 6, 9), activation="none", ndim=1),
    *(_case((2, 6, 9), taps, dilation=dilation) for taps in (1, 2, 3, 9) for dilation in (1, 3)),
    _case((2, 9, 6), 3, dilation=2, channels_last=1),
    _case((2, 4, 2, 3), channels_last=1),
    _case((1, 4, 2, 3, 2), channels_last=1, past=False),
    _case((0, 6, 9)),
    *(_case((2, 3, length), state_window=window, past=past)
      for length in (0, 1, 3, 12) for window in (1, 4, 8) for past in (True, False)),
    _case((2, 3, 5), state_window=3, channels_last=1, dilation=2),
    # slices of channels, longer states and states of the other form, captures
    _case((2, 5, 7), channels_last=1, input_channels=3, input_channel_offset=2, dtypes=TYPES),
    _case((2, 5, 7), channels_last=1, input_channels=3, past=False),
    *(_case((2, 5, 7), channels_last=1, state_channels_last=last, state_length=length)
      for last in (0, 1) for length in (3, 5, 9)),
    *(_case((2, length, 7), channels_last=1, state_update_capacity=3, dtypes=TYPES if length == 5 else ("float32",))
      for length in (0, 2, 5)),
    _case((2, 5, 7), 3, channels_last=1, state_update_capacity=8, input_channels=2, input_channel_offset=4,
          state_length=6, state_channels_last=0, dilation=2, activation="silu"),
    # an unknown number stays in its channel and in the reach of the taps
    _case((2, 6, 9), specials=True),
    _refused("ndim 2", (1, 1, 4, 5), (1, 1, 3, 2), code="NOT_SUPPORTED", ndim=2),
    _refused("ndim 3", (1, 1, 4, 5, 2), (1, 1, 3, 2, 2), code="NOT_SUPPORTED", ndim=3),
    _refused("activation 'relu'", _X, _W, activation="relu"),
    _refused("dilation 0", _X, _W, dilation=0),
    _refused("state_window 9", _X, _W, state_window=9),
    _refused("state_update_capacity 9", _X, _W, state_update_capacity=9, channels_last=1),
    _refused("state_channels_last 2", _X, _W, state_channels_last=2, channels_last=1),
    _refused("must not be negative", _X, _W, state_length=-1, channels_last=1),
    _refused("need channels_last", _X, _W, state_length=5),
    _refused("no state_window", _X, (6, 1, 4), state_length=5, channels_last=1, state_window=2),
    _refused("state_length 2 is below the reach of 3", _X, (6, 1, 4), state_length=2, channels_last=1),
    _refused("channels 4 to 7 are not in", _X, (3, 1, 4), input_channels=3, input_channel_offset=4, channels_last=1),
    _refused("input_channels beyond", _X, (1, 1, 4), code="NOT_SUPPORTED", input_channels=1,
             input_channel_offset=2**63 - 1, channels_last=1),
    _refused("weight [4,1,4] must be [3,1,taps]", _X, (4, 1, 4)),
    _refused("bias [4] must be [3]", _X, _W, (4,)),
    _refused("past_state [2,3,4] must be [2,3,3]", _X, _W, None, (2, 3, 4)),
    _refused("input [3,6] has other dimensions", (3, 6), _W),
]  # fmt: skip
