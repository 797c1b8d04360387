"""Where compiled regions have their values and weights, on every supported host: results are those without regions.

python -m tests.session.region_memory_suite LIBRARY
"""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper

from tests.session import models
from tests.session.region_support import APART, BASIC, DEVICE, FLOATS, agrees, joined, regions_of, values
from tests.session.suite import run_checks, session


def check_values_that_leave() -> None:
    """An output of the graph that is read inside, one that is a view of it, and one that nobody reads."""
    nodes = [
        helper.make_node("Relu", ["x"], ["inner"]),
        helper.make_node("Flatten", ["inner"], ["flat"], axis=0),
        helper.make_node("Add", ["inner", "x"], ["sum"]),
        helper.make_node("Mul", ["sum", "inner"], ["unread"]),
        helper.make_node("Abs", ["sum"], ["y"]),
    ]
    outputs: dict[str, tuple[int, list[str | int] | None]] = {
        "inner": FLOATS,
        "flat": (TensorProto.FLOAT, None),
        "y": FLOATS,
    }
    model = models.model(nodes, {"x": FLOATS}, outputs)
    agrees(model, [{"x": values(3, 5)}, {"x": values(1, 1)}])


def check_views_and_overwriting() -> None:
    """Views of inputs, of constants and of values read later are not overwritten."""
    nodes = [
        helper.make_node("Flatten", ["x"], ["view"], axis=1),
        helper.make_node("Relu", ["view"], ["a"]),
        helper.make_node("Identity", ["c"], ["constant"]),
        helper.make_node("Add", ["constant", "a"], ["b"]),
        helper.make_node("Flatten", ["b"], ["same"], axis=1),
        helper.make_node("Neg", ["same"], ["d"]),
        helper.make_node("Mul", ["d", "b"], ["e"]),
        helper.make_node("Add", ["e", "view"], ["f"]),
        helper.make_node("Sub", ["f", "f"], ["zero"]),
        helper.make_node("Add", ["zero", "f"], ["y"]),
    ]
    model = models.model(nodes, {"x": FLOATS}, {"y": FLOATS}, {"c": values(1, 4)})
    agrees(model, [{"x": values(3, 4)}, {"x": values(1, 4)}])


def check_an_output_in_the_memory_of_an_input() -> None:
    """A state that each Run renews in place: nothing is written there before all is read."""
    nodes = [
        helper.make_node("Mul", ["s", "g"], ["a"]),
        helper.make_node("Tanh", ["a"], ["b"]),
        helper.make_node("Add", ["b", "g"], ["c"]),
        helper.make_node("Mul", ["c", "s"], ["d"]),
        helper.make_node("Sub", ["s", "d"], ["e"]),
        helper.make_node("Flatten", ["e"], ["y"]),
    ]
    row: tuple[int, list[str | int]] = (TensorProto.FLOAT, [1, 5])
    model = models.model(nodes, {"s": row, "g": row}, {"y": row})
    _renews_in_place(model)


def check_another_output_in_the_memory_of_an_input() -> None:
    """The same of a value that leaves from the middle of a chain, which reads the input after it."""
    nodes = [
        helper.make_node("Tanh", ["g"], ["y"]),
        helper.make_node("Add", ["y", "s"], ["a"]),
        helper.make_node("Mul", ["a", "g"], ["z"]),
    ]
    row: tuple[int, list[str | int]] = (TensorProto.FLOAT, [1, 5])
    _renews_in_place(models.model(nodes, {"s": row, "g": row}, {"y": row, "z": row}), {"fusion": "1"})


def _renews_in_place(model: bytes, options: dict[str, str] | None = None) -> None:
    """Outputs of inputs s and g, of which y is in the memory of s."""
    start, gain = values(1, 5), values(1, 5)
    plain = session(model, APART, level=BASIC)
    names = [output.name for output in plain.get_outputs()]
    expected = plain.run(names, {"s": start, "g": gain})
    together = joined(model, options)
    state = ort.OrtValue.ortvalue_from_numpy(start, "gpu", 0, 0x10DE)
    binding = together.io_binding()
    binding.bind_ortvalue_input("s", state)
    binding.bind_cpu_input("g", gain)
    for name in names:
        if name == "y":
            binding.bind_ortvalue_output(name, state)
        else:
            binding._iobinding.bind_output(name, DEVICE)
    together.run_with_iobinding(binding)
    for result, value in zip(binding.get_outputs(), expected, strict=True):
        np.testing.assert_array_equal(result.numpy(), value)


def check_one_buffer_read_twice() -> None:
    """What is overwritten while the same node reads it by another input, and outputs of one node, have own memory."""
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Flatten", ["r"], ["f"], axis=1),
        helper.make_node("ArgMax", ["x"], ["i"], axis=0, keepdims=1),
        helper.make_node("Expand", ["i", "two"], ["indices"]),
        helper.make_node("ScatterElements", ["r", "indices", "f"], ["s"], axis=0),
        helper.make_node("Abs", ["s"], ["t"]),
        helper.make_node("TopK", ["t", "k"], ["values", "positions"], axis=1),
        helper.make_node("Cast", ["positions"], ["p"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["values", "p"], ["sum"]),
        helper.make_node("Neg", ["sum"], ["y"]),
    ]
    constants = {"two": np.array([2, 3]), "k": np.array([2])}
    square: tuple[int, list[str | int]] = (TensorProto.FLOAT, [2, 3])
    model = models.model(nodes, {"x": square}, {"y": (TensorProto.FLOAT, [2, 2])}, constants)
    agrees(model, [{"x": values(2, 3)} for _ in range(4)])


def check_weights_that_are_packed() -> None:
    """Operators that pack their weights have them packed once, also where another node reads the same one."""
    rng = np.random.default_rng(3)
    packed = rng.integers(0, 255, (32, 2, 16), dtype=np.uint8)
    scales = rng.uniform(0.5, 1, (32, 2)).astype(np.float32)
    product = helper.make_node(
        "MatMulNBits", ["r", "q", "s"], ["p"], domain="com.microsoft", K=64, N=32, bits=4, block_size=32
    )
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        product,
        helper.make_node("Cast", ["q"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("ReduceSum", ["f"], ["sum"], keepdims=0),
        helper.make_node("Add", ["p", "sum"], ["y"]),
    ]
    rows: tuple[int, list[str | int]] = (TensorProto.FLOAT, ["n", 64])
    model = models.model(nodes, {"x": rows}, {"y": FLOATS}, {"q": packed, "s": scales}, opset=17)
    agrees(model, [{"x": values(n, 64)} for n in (1, 5)])


def check_weights_of_two_regions() -> None:
    """A weight of 4 MiB that two regions read is on the device once: there is no room for it twice."""
    size = 1024
    weight = values(size, size) / 32

    def product(x: str, y: str) -> list[onnx.NodeProto]:
        return [helper.make_node("MatMul", [x, "w"], [f"{y}_p"]), helper.make_node("Relu", [f"{y}_p"], [y])]

    nodes = [
        *product("x", "a"),
        helper.make_node("NonZero", ["a"], ["positions"]),
        helper.make_node("Cast", ["positions"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("ReduceSum", ["f"], ["sum"], keepdims=0),
        helper.make_node("Add", ["a", "sum"], ["b"]),
        *product("b", "y"),
    ]
    rows: tuple[int, list[str | int]] = (TensorProto.FLOAT, ["n", size])
    model = models.model(nodes, {"x": rows}, {"y": rows}, {"w": weight})
    assert regions_of(model, {"x": values(2, size)}, cpu_allowed=True)[0] == 2
    together = joined(model, {"gpu_mem_limit": str(7 << 20)}, cpu_allowed=True)
    alone = session(model, APART, cpu_allowed=True, level=BASIC)
    for rows_of_feed in (1, 2):
        feed = {"x": values(rows_of_feed, size)}
        mine, other = together.run(None, feed)[0], alone.run(None, feed)[0]
        # A library's plan for less memory may add up in another order.
        np.testing.assert_allclose(mine, other, rtol=0, atol=2.0**-20 * np.abs(other).max())


def check_values_outlive_their_session() -> None:
    """An output of a region is there after its session, on every host."""
    network = joined(models.mixer())
    feed = {"x": values(2, 8, 32)}
    (expected,) = network.run(None, feed)
    binding = network.io_binding()
    binding.bind_cpu_input("x", feed["x"])
    binding._iobinding.bind_output("y", DEVICE)
    network.run_with_iobinding(binding)
    (value,) = binding.get_outputs()
    del binding, network
    np.testing.assert_array_equal(value.numpy(), expected)


if __name__ == "__main__":
    run_checks(globals())
