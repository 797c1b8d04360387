"""LSTM, GRU and RNN, and LSTM with weights of 8 bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.op.cases import dynamic_quantize_lstm, rnn

from ..draw import Draw, Node

_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
_FUNCTIONS = {"LSTM": 3, "GRU": 2, "RNN": 1}
# Those without values of their own, which the CPU provider and others give other defaults.
_NAMES = ("Sigmoid", "Tanh", "Relu", "Softsign", "Softplus", "Sigmoid", "Tanh")


def _recurrent(d: Draw) -> Node:
    op, dtype = d.row.op, d.type("T")
    direction = d.pick(["forward", "forward", "reverse", "bidirectional", None])
    count, hidden, features = 2 if direction == "bidirectional" else 1, d.integer(1, 9), d.integer(1, 7)
    attrs: dict[str, Any] = {"hidden_size": hidden}
    if direction is not None:
        attrs["direction"] = direction
    # The CPU provider has no other layout and the reference no directions with it.
    layout = 1 if d.version >= 14 and direction in ("forward", None) and d.chance(0.15) else 0
    if layout:
        attrs["layout"] = 1
    if d.chance(0.3):
        attrs["activations"] = [d.pick(_NAMES) for _ in range(count * _FUNCTIONS[op])]
    if d.chance(0.15):
        attrs["clip"] = d.real(0.5, 3)
    if op == "GRU":
        attrs.update(d.attrs(linear_before_reset=[0, 1, None]))
    if op == "LSTM" and d.chance(0.1):
        attrs["input_forget"] = 1
    steps, batch = d.any(1, 6), d.any(1, 5)

    def small(*shape: int) -> np.ndarray:
        return d.values(dtype, shape, -0.7, 0.7, specials=False)

    rows = _GATES[op] * hidden
    x = small(batch, steps, features) if layout else small(steps, batch, features)
    bias = small(count, 2 * rows) if d.chance(0.7) else None
    lengths = d.free.integers(1, steps, batch, endpoint=True).astype(np.int32) if d.chance(0.4) and not layout else None

    def state() -> np.ndarray | None:
        return small(*((batch, count, hidden) if layout else (count, batch, hidden))) if d.chance(0.5) else None

    inputs = [x, small(count, rows, features), small(count, rows, hidden), bias, lengths, state()]
    if op == "LSTM":
        inputs += [state(), small(count, 3 * hidden) if d.chance(0.3) else None]
    full = (True,) * (3 if op == "LSTM" else 2)
    # The CPU provider has one type, and the reference neither lengths nor directions nor functions.
    return Node(inputs, attrs, d.pick([full, full, (True,), (False, True)]), scale=4.0,
                tolerance=rnn._ERRORS[dtype], formula=rnn._reference(op))  # fmt: skip


def _quantized(d: Draw) -> Node:
    direction = d.pick(["forward", "reverse", "bidirectional", None])
    count, hidden, features = 2 if direction == "bidirectional" else 1, d.integer(1, 20), d.integer(1, 18)
    attrs: dict[str, Any] = {"hidden_size": hidden, **({} if direction is None else {"direction": direction})}
    if d.chance(0.15):
        attrs["clip"] = d.real(0.5, 3)
    steps, batch, kind = d.any(1, 6), d.any(1, 5), d.type("T2")
    columns = [count, 4 * hidden] if d.chance(0.5) else [count]

    def small(*shape: int) -> np.ndarray:
        return d.values("float32", shape, -0.7, 0.7, specials=False)

    def quantized() -> list[np.ndarray]:
        return [d.values("float32", columns, 0.001, 0.006, specials=False), d.moved(kind, columns)]

    lengths = d.free.integers(0, steps, batch, endpoint=True).astype(np.int32) if d.chance(0.4) else None
    inputs = [
        small(steps, batch, features), d.moved(kind, [count, features, 4 * hidden]),
        d.moved(kind, [count, hidden, 4 * hidden]), small(count, 8 * hidden) if d.chance(0.7) else None, lengths,
        small(count, batch, hidden) if d.chance(0.5) else None, small(count, batch, hidden) if d.chance(0.5) else None,
        small(count, 3 * hidden) if d.chance(0.3) else None, *quantized(), *quantized(),
    ]  # fmt: skip
    outputs = d.pick([(True, True, True), (True,), (False, True)])
    known = frozenset(d.subset([1, 2]))
    return Node(inputs, attrs, outputs, constants=known, tolerance=dynamic_quantize_lstm._A_STEP, widen=False,
                formula=dynamic_quantize_lstm._reference)  # fmt: skip


SPECS = {("", op): _recurrent for op in _GATES} | {("com.microsoft", "DynamicQuantizeLSTM"): _quantized}
