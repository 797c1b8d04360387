"""A decoder's 512 tokens through a session, each step's cache the next one's past, judged in float64.

How many plans that makes is held by tests/unit/ops/attention_lengths_test.cc.
"""

import math

import numpy as np
import onnx
import pytest
from onnx import helper

from . import host

_HEADS, _KV_HEADS, _SIZE, _TOKENS, _PROMPT = 4, 2, 16, 512, 7


def _model(domain: str) -> bytes:
    new, cache = [1, "new", _HEADS * _SIZE], [1, _KV_HEADS, "past", _SIZE]
    fresh = [1, "new", _KV_HEADS * _SIZE]
    shapes = {"q": new, "k": fresh, "v": fresh, "past_k": cache, "past_v": cache}
    inputs = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, dims) for name, dims in shapes.items()]
    names = ["q", "k", "v", "past_k", "past_v"]
    if domain:
        lengths = {"seqlens": [1], "total": [1]}
        inputs += [helper.make_tensor_value_info(name, onnx.TensorProto.INT32, dims) for name, dims in lengths.items()]
        node = helper.make_node("GroupQueryAttention", [*names, "seqlens", "total"], ["y", "present_k", "present_v"],
                                domain=domain, num_heads=_HEADS, kv_num_heads=_KV_HEADS)  # fmt: skip
    else:
        node = helper.make_node("Attention", [*names[:3], "", *names[3:]], ["y", "present_k", "present_v"],
                                is_causal=1, q_num_heads=_HEADS, kv_num_heads=_KV_HEADS)  # fmt: skip
    outputs = [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, new)]
    outputs += [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, _KV_HEADS, "keys", _SIZE])
        for name in ("present_k", "present_v")
    ]
    graph = helper.make_graph([node], "decode", inputs, outputs)
    opsets = [helper.make_opsetid("", 24), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()


def _expected(q: np.ndarray, k: np.ndarray, v: np.ndarray, row: int) -> np.ndarray:
    """Row `row` of causal attention over [tokens, heads, size]."""
    group = _HEADS // _KV_HEADS
    keys, values = (np.repeat(x[: row + 1].astype(np.float64), group, 1) for x in (k, v))
    scores = np.einsum("hd,khd->hk", q[row].astype(np.float64), keys) / math.sqrt(_SIZE)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    return np.einsum("hk,khd->hd", weights, values)


@pytest.mark.parametrize("domain", ["", "com.microsoft"], ids=["onnx", "groups"])
def test_every_token_is_right(domain: str, test_library: str) -> None:
    assert test_library
    random = np.random.default_rng(3)
    q = random.uniform(-1, 1, (_TOKENS, _HEADS, _SIZE)).astype(np.float32)
    k, v = (random.uniform(-1, 1, (_TOKENS, _KV_HEADS, _SIZE)).astype(np.float32) for _ in range(2))
    session = host.open_session(_model(domain))  # fails where the node is elsewhere
    cache = [np.zeros((1, _KV_HEADS, 0, _SIZE), np.float32)] * 2
    past = 0
    while past < _TOKENS:
        count = 1 if past else _PROMPT
        rows = slice(past, past + count)
        feeds = {"q": q[rows].reshape(1, count, -1), "k": k[rows].reshape(1, count, -1),
                 "v": v[rows].reshape(1, count, -1), "past_k": cache[0], "past_v": cache[1]}  # fmt: skip
        if domain:
            total = past + count
            feeds |= {"seqlens": np.array([total - 1], np.int32), "total": np.array([total], np.int32)}
        y, *cache = host.run(session, feeds)
        for i in range(count):
            np.testing.assert_allclose(
                y[0, i].reshape(_HEADS, _SIZE), _expected(q, k, v, past + i), rtol=0, atol=2e-6, err_msg=f"{past + i}"
            )
        past += count
    np.testing.assert_array_equal(cache[0][0], k.transpose(1, 0, 2))
