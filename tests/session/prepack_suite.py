"""What must hold about weights that operators pack, on every supported host: one JSON line a check.

python -m tests.session.prepack_suite LIBRARY
"""

from __future__ import annotations

import gc

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.session import models
from tests.session.suite import logged, on_one_host, run_checks, session

BLOCK = 32
NO_PACKING = {"session.disable_prepacking": "1"}


def weights(size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Weights of 4 bits and their scales, for a square product."""
    rng = np.random.default_rng(seed)
    data = rng.integers(0, 256, (size, size // BLOCK, BLOCK // 2), dtype=np.uint8)
    return data, rng.uniform(0.5, 1, (size, size // BLOCK)).astype(np.float32) / size


def dense(data: np.ndarray, scales: np.ndarray) -> np.ndarray:
    size = data.shape[0]
    halves = np.stack([data & 15, data >> 4], axis=-1).reshape(size, size).astype(np.float64) - 8
    return halves * np.repeat(scales, BLOCK, axis=1)


def product(a: str, b: str, scales: str, y: str, size: int) -> onnx.NodeProto:
    attributes = {"K": size, "N": size, "bits": 4, "block_size": BLOCK}
    return helper.make_node("MatMulNBits", [a, b, scales], [y], name=y, domain="com.microsoft", **attributes)


def chain(length: int, size: int) -> bytes:
    """`length` products with weights of their own, size * size / 2 bytes and their scales each."""
    constants = {}
    for i in range(length):
        constants[f"w{i}"], constants[f"s{i}"] = weights(size, i)
    nodes = [product(f"v{i}", f"w{i}", f"s{i}", f"v{i + 1}", size) for i in range(length)]
    rows: tuple[int, list[str | int]] = (TensorProto.FLOAT, ["n", size])
    return models.model(nodes, {"v0": rows}, {f"v{length}": rows}, constants)


def expected(x: np.ndarray, length: int, size: int) -> np.ndarray:
    for i in range(length):
        x = x @ dense(*weights(size, i)).T
    return x


def check_packed_and_plain_weights_give_the_same() -> None:
    """Packed at creation, not packed by the session's wish, and fed as inputs."""
    size = 96
    x = np.random.default_rng(9).standard_normal((5, size)).astype(np.float32)
    wanted = expected(x.astype(np.float64), 3, size)
    for entries in ({}, NO_PACKING):
        (result,) = session(chain(3, size), entries=entries).run(None, {"v0": x})
        np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-5)
    data, scales = weights(size, 0)
    rows: tuple[int, list[str | int]] = (TensorProto.FLOAT, ["n", size])
    fed = models.model(
        [product("x", "w", "s", "y", size)],
        {
            "x": rows,
            "w": (TensorProto.UINT8, list(data.shape)),
            "s": (TensorProto.FLOAT, list(scales.shape)),
        },
        {"y": rows},
    )
    (result,) = session(fed).run(None, {"x": x, "w": data, "s": scales})
    np.testing.assert_allclose(result, expected(x.astype(np.float64), 1, size), rtol=1e-4, atol=1e-5)


def _choice(size: int, then: tuple[str, str], other: dict[str, np.ndarray]) -> onnx.NodeProto:
    """y = x by the weights and scales that `then` names in the outer graph, or by the branch's own `other`."""

    def branch(name: str, b: str, scales: str, constants: dict[str, np.ndarray]) -> onnx.GraphProto:
        return helper.make_graph(
            [product("x", b, scales, name, size)],
            name,
            [],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", size])],
            [onnx.numpy_helper.from_array(value, key) for key, value in constants.items()],
        )

    b, scales = other
    branches = {"then_branch": branch("then", *then, {}), "else_branch": branch("other", b, scales, other)}
    return helper.make_node("If", ["condition"], ["y"], name="choose", **branches)


def check_weights_of_subgraphs() -> None:
    """A branch's own constant and one of the outer graph that two branches share."""
    size = 64
    (outer, outer_scales), (inner, inner_scales) = weights(size, 0), weights(size, 1)
    rows = ["n", size]

    choose = _choice(size, ("outer", "outer_scales"), {"inner": inner, "inner_scales": inner_scales})
    model = models.model(
        [choose, product("x", "outer", "outer_scales", "z", size)],
        {"x": (TensorProto.FLOAT, rows), "condition": (TensorProto.BOOL, [])},
        {"y": (TensorProto.FLOAT, rows), "z": (TensorProto.FLOAT, rows)},
        {"outer": outer, "outer_scales": outer_scales},
    )
    x = np.random.default_rng(3).standard_normal((4, size)).astype(np.float32)
    for entries in ({}, NO_PACKING):
        both = session(model, cpu_allowed=True, entries=entries)
        for condition, own in ((True, weights(size, 0)), (False, weights(size, 1))):
            y, z = both.run(None, {"x": x, "condition": np.array(condition)})
            np.testing.assert_allclose(y, x @ dense(*own).T, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(z, x @ dense(*weights(size, 0)).T, rtol=1e-4, atol=1e-5)


def check_a_weight_that_the_cpu_reads_too() -> None:
    """An initializer of the outer graph that a node on the CPU reads there, and a product in a branch here."""
    size = 64
    (data, scales), (other, other_scales) = weights(size, 0), weights(size, 1)
    rows = ["n", size]

    choose = _choice(size, ("weights", "scales"), {"other_weights": other, "other_scales": other_scales})
    model = models.model(
        [
            choose,
            helper.make_node("SequenceConstruct", ["weights", "more"], ["both"], name="both"),
            helper.make_node("ConcatFromSequence", ["both"], ["joined"], name="joined", axis=0),
        ],
        {
            "x": (TensorProto.FLOAT, rows),
            "condition": (TensorProto.BOOL, []),
            "more": (TensorProto.UINT8, list(data.shape)),
        },
        {"y": (TensorProto.FLOAT, rows), "joined": (TensorProto.UINT8, None)},
        {"weights": data, "scales": scales},
    )
    x = np.random.default_rng(4).standard_normal((4, size)).astype(np.float32)
    for entries in ({}, NO_PACKING):
        created = session(model, cpu_allowed=True, entries=entries)
        for condition, own in ((True, (data, scales)), (False, (other, other_scales))) * 2:
            y, joined = created.run(None, {"x": x, "condition": np.array(condition), "more": other})
            np.testing.assert_allclose(y, x @ dense(*own).T, rtol=1e-4, atol=1e-5)
            np.testing.assert_array_equal(joined, np.concatenate([data, other]))


def check_packing_needs_room_for_one_weight_more() -> None:
    """Weights of 4 MiB are packed within 1.05 times their size and the largest one; a little less is not enough."""
    length, size = 8, 1024
    one = size * size // 2
    total = length * (one + 4 * size * (size // BLOCK))
    with logged("a weight is used as it is") as refused:
        session(chain(length, size), {"gpu_mem_limit": str(int(1.05 * total) + one)})
    assert not refused, refused
    with logged("a weight is used as it is") as refused:
        session(chain(length, size), {"gpu_mem_limit": str(total + one // 2)})
    assert refused, "packing needed no memory at all"


def dense_chain(names: list[str], size: int) -> bytes:
    """Products of 16 bits, alternately a MatMul and a Gemm, with the weights of these names."""
    constants = {name: _half(size, i) for i, name in enumerate(dict.fromkeys(names))}
    nodes = [
        helper.make_node(("MatMul", "Gemm")[i % 2], [f"v{i}", name], [f"v{i + 1}"], name=f"node{i}")
        for i, name in enumerate(names)
    ]
    rows: tuple[int, list[str | int]] = (TensorProto.FLOAT16, ["n", size])
    return models.model(nodes, {"v0": rows}, {f"v{len(names)}": rows}, constants)


def _half(size: int, seed: int) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal((size, size)) / np.sqrt(size)).astype(np.float16)


NODE_BY_NODE = {"compiled_regions": "0"}


def check_weights_of_16_bits_are_packed_by_their_only_reader() -> None:
    """Packed within 1.05 times their size and the largest one; those that several nodes read are not packed at all."""
    size, length = 1024, 6
    one = 2 * size * size
    own, shared = [f"w{i}" for i in range(length)], ["w"] * length
    with logged("a weight is used as it is") as refused:
        session(dense_chain(own, size), NODE_BY_NODE | {"gpu_mem_limit": str(int(1.05 * length * one) + one)})
        session(dense_chain(shared, size), NODE_BY_NODE | {"gpu_mem_limit": str(int(1.05 * one))})
    assert not refused, refused
    with logged("a weight is used as it is") as refused:
        session(dense_chain(own, size), NODE_BY_NODE | {"gpu_mem_limit": str(length * one + one // 2)})
    assert refused, "packing needed no memory at all"


def check_products_of_16_bits_packed_and_plain() -> None:
    """Of few rows, some and many, at creation packed or not, and with a weight that two nodes share."""
    size = 64
    for names in (["a", "b", "c"], ["a", "b", "a"]):
        factors = dict(zip(dict.fromkeys(names), (_half(size, i) for i in range(3)), strict=False))
        for entries in ({}, NO_PACKING):
            created = session(dense_chain(names, size), NODE_BY_NODE, entries=entries)
            for rows in (1, 16, 17, 40, 300):
                x = np.random.default_rng(rows).standard_normal((rows, size)).astype(np.float16)
                wanted = x.astype(np.float64)
                for name in names:
                    wanted = wanted @ factors[name].astype(np.float64)
                (result,) = created.run(None, {"v0": x})
                np.testing.assert_allclose(result, wanted, rtol=5e-3, atol=5e-3)


@on_one_host
def check_a_hundred_sessions_leave_nothing_behind() -> None:
    """Under a limit that one of them needs nearly whole: what one leaves is charged to the next, which says so."""
    length, size = 2, 256
    one = size * size // 2
    limit = str(int(1.05 * length * (one + 4 * size * (size // BLOCK))) + one)
    model = chain(length, size)
    x = np.random.default_rng(5).standard_normal((3, size)).astype(np.float32)
    with logged("a weight is used as it is") as refused:
        for i in range(100):
            created = session(model, {"gpu_mem_limit": limit})
            if i % 10 == 0:
                (result,) = session(model).run(None, {"v0": x})
                np.testing.assert_allclose(result, expected(x.astype(np.float64), length, size), rtol=1e-4, atol=1e-5)
            del created
            gc.collect()
    assert not refused, refused[:3]


if __name__ == "__main__":
    run_checks(globals())
