"""A decoder with weights of 4 bits as onnxruntime-genai's model builder writes it, and its cases.

What the builder emits for CUDA (its main branch of 2026-08): MatMulNBits of blocks of 32, symmetric, accuracy level 0;
queries, keys and values in one product; GroupQueryAttention that rotates and appends, its lengths computed from the
attention mask; norms by com.microsoft's skip form but for the first; no position ids; logits of every token.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto

from bench import models
from bench.cases import Case, Feeds

BLOCK = 32
_DRAWN = 31_247  # blocks that all weights are made of: a prime, so that rows of a weight differ
_MS = "com.microsoft"


@dataclass(frozen=True)
class Decoder:
    """Sizes and forms; the defaults are those of Llama 3.2 with 1.2 billion weights.

    `capacity`: keys that a cache holds; `angles`: positions of the rotary tables.
    """

    hidden: int = 2048
    layers: int = 16
    heads: int = 32
    kv_heads: int = 8
    head_size: int = 64
    inner: int = 8192
    words: int = 128_256
    angles: int = 131_072
    capacity: int = 2048
    packed: bool = True  # one product for queries, keys and values
    zero_points: bool = False
    accuracy_level: int = 0

    def caches(self) -> dict[str, str]:
        """The cache that each present output is bound to."""
        parts = [f"{layer}.{part}" for layer in range(self.layers) for part in ("key", "value")]
        return {f"present.{part}": f"past_key_values.{part}" for part in parts}

    def feeds(self, batch: int, tokens: int, past: int) -> Feeds:
        """`tokens` new words behind `past` others. Caches are random to their end, which no step may read or change."""
        made: Feeds = {
            "input_ids": np.random.default_rng(5).integers(0, self.words, (batch, tokens)),
            "attention_mask": np.ones((batch, past + tokens), np.int64),
        }
        for seed, name in enumerate(self.caches().values()):
            cache = models.numbers("float16", batch, self.kv_heads, self.capacity, self.head_size)
            made[name] = np.roll(cache, 31 * seed)
        return made

    def model(self, dtype: str) -> onnx.ModelProto:
        """input_ids [batch, tokens], attention_mask [batch, total], past caches -> logits [batch, tokens, words]."""
        b = _Nodes(dtype, self)
        lengths, total = b.lengths()
        angles = b.rotary_tables()
        value = b.node("Gather", b.weight(self.words, self.hidden, scale=0.5), "input_ids")
        normed = b.node("SimplifiedLayerNormalization", value, b.norm_scale(), axis=-1, epsilon=1e-5, stash_type=1)
        presents = []
        for layer in range(self.layers):
            past = [f"past_key_values.{layer}.{part}" for part in ("key", "value")]
            context, *present = b.attention(normed, [*past, lengths, total, *angles])
            presents += present
            normed, value = b.skip_norm(value, b.product(context, self.heads * self.head_size, self.hidden))
            normed, value = b.skip_norm(value, b.feed_forward(normed))
        logits = b.product(normed, self.hidden, self.words)
        cache: tuple[int, models.Dims] = (b.kind, ["batch", self.kv_heads, "capacity", self.head_size])
        rows: dict[str, tuple[int, models.Dims]] = {
            "input_ids": (TensorProto.INT64, ["batch", "tokens"]),
            "attention_mask": (TensorProto.INT64, ["batch", "total"]),
        }
        outputs = {"logits": logits, **dict(zip(self.caches(), presents, strict=True))}
        return b.finish({**rows, **dict.fromkeys(self.caches().values(), cache)}, outputs, opset=21)


TINY = Decoder(64, 2, 4, 2, 32, 128, 96, 64, 16)


class _Nodes(models.Builder):
    """A decoder's parts."""

    def __init__(self, dtype: str, sizes: Decoder) -> None:
        super().__init__(dtype)
        self._sizes = sizes
        blocks = models.normal(3, (_DRAWN, BLOCK))
        self._codes, self._scales, self._zeros = in_4_bits(blocks, sizes.zero_points)

    def product(self, x: str, inputs: int, outputs: int) -> str:
        """By a weight of 4 bits."""
        blocks, start = inputs // BLOCK, int(self._rng.integers(_DRAWN))

        def drawn(table: np.ndarray) -> np.ndarray:
            return np.resize(np.roll(table, start, axis=0), (outputs, blocks, *table.shape[1:]))

        scales = (drawn(self._scales) / np.float32(np.sqrt(inputs))).astype(np.float16).astype(self.dtype)
        constants = [drawn(self._codes), scales.reshape(-1)]
        if self._sizes.zero_points:
            zeros = np.pad(drawn(self._zeros), ((0, 0), (0, blocks % 2)))
            constants.append((zeros[:, ::2] | zeros[:, 1::2] << 4).reshape(-1))
        given = {"K": inputs, "N": outputs, "bits": 4, "block_size": BLOCK}
        if self._sizes.accuracy_level:
            given["accuracy_level"] = self._sizes.accuracy_level
        return self.node("MatMulNBits", x, *map(self.constant, constants), domain=_MS, **given)

    def norm_scale(self) -> str:
        return self.weight(self._sizes.hidden, scale=0.1, mean=1.0)

    def skip_norm(self, value: str, added: str) -> tuple[str, str]:
        """The norm of the sum, and the sum."""
        kind, names = "SkipSimplifiedLayerNormalization", (True, False, False, True)
        normed, total = self.several(kind, names, value, added, self.norm_scale(), domain=_MS, epsilon=1e-5)
        return normed, total

    def attention(self, normed: str, rest: list[str]) -> list[str]:
        """The heads' results and the caches after it; `rest`: GroupQueryAttention's inputs behind the value."""
        s = self._sizes
        widths = [s.heads * s.head_size, s.kv_heads * s.head_size, s.kv_heads * s.head_size]
        projected = [self.product(normed, s.hidden, width) for width in ([sum(widths)] if s.packed else widths)]
        projected += [""] * (3 - len(projected))
        return self.several(
            "GroupQueryAttention", (True, True, True), *projected, *rest, domain=_MS, num_heads=s.heads,
            kv_num_heads=s.kv_heads, scale=s.head_size**-0.5, local_window_size=-1, softcap=0.0, do_rotary=1,
            rotary_interleaved=0,
        )  # fmt: skip

    def feed_forward(self, normed: str) -> str:
        s = self._sizes
        gate = self.product(normed, s.hidden, s.inner)
        up = self.product(normed, s.hidden, s.inner)
        active = self.node("Mul", gate, self.node("Sigmoid", gate))
        return self.product(self.node("Mul", active, up), s.inner, s.hidden)

    def lengths(self) -> tuple[str, str]:
        """seqlens_k and total_sequence_length, from the mask."""
        one = self.constant(np.ones(1, np.int64))
        keys = self.node("Sub", self.node("ReduceSum", "attention_mask", one, keepdims=0), one)
        total = self.node("Gather", self.node("Shape", "attention_mask"), self.constant(np.asarray(1)), axis=0)
        return (self.node("Cast", keys, to=TensorProto.INT32), self.node("Cast", total, to=TensorProto.INT32))

    def rotary_tables(self) -> list[str]:
        """Cosines and sines, [angles, head_size / 2]."""
        s = self._sizes
        turns = np.outer(np.arange(s.angles), 500_000.0 ** -np.arange(0, 1, 2 / s.head_size))
        return [self.constant(table(turns).astype(np.float16).astype(self.dtype)) for table in (np.cos, np.sin)]


def in_4_bits(blocks: np.ndarray, zero_points: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Codes in pairs (the first the low one), scales and zero points of blocks of numbers, as the host rounds them."""
    if zero_points:
        low, high = np.minimum(blocks.min(1), 0), np.maximum(blocks.max(1), 0)
        scales = (high - low) / 15
        zeros = np.rint(-low / scales)
    else:
        furthest = np.take_along_axis(blocks, np.abs(blocks).argmax(1)[:, None], 1)[:, 0]
        scales, zeros = furthest / -8, np.full(len(blocks), 8.0)
    codes = np.clip(np.rint(blocks / scales[:, None]) + zeros[:, None], 0, 15).astype(np.uint8)
    return codes[:, ::2] | codes[:, 1::2] << 4, scales.astype(np.float32), zeros.astype(np.uint8)


def _case(decoder: Decoder, name: str, batch: int, tokens: int, past: int) -> Case:
    sizes = {"batch": batch, "tokens": tokens, "past": past, "capacity": decoder.capacity}
    return Case(
        f"decoder_int4/{name}/b{batch}",
        "full",
        {"model": "decoder_int4", "dtype": "float16", "codes": "int4", **sizes},
        decoder.model,
        lambda: decoder.feeds(batch, tokens, past),
        tolerance=2e-2,
        rows=batch,
        sampled=1,
        in_place=decoder.caches(),
        model_key="decoder_int4",
    )


def table(tiny: bool) -> tuple[Case, ...]:
    """One token behind others, one row and eight, and a prompt."""
    decoder, past, prompt = (TINY, 8, 6) if tiny else (Decoder(), 1024, 512)
    return (
        _case(decoder, "step", 1, 1, past),
        _case(decoder, "step", 8, 1, past),
        _case(decoder, "prefill", 1, prompt, 0),
    )
