"""Transformers: encoders, decoders with their cache of keys and values, and encoders with decoders."""

from typing import Any

import torch
import transformers as tf
from torch import nn
from transformers import DynamicCache, EncoderDecoderCache

from .model import Export, entries
from .sequences import First

_SMALL = {"vocab_size": 64, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}


def _attention(exporter: str) -> str:
    return "eager" if exporter == "torchscript" else "sdpa"


def _ids(batch: int, length: int) -> torch.Tensor:
    return torch.randint(3, 64, (batch, length))


class _Encoder(nn.Module):
    """Tokens and their mask to the last hidden state."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """The first output."""
        return self.inner(input_ids, attention_mask=attention_mask, return_dict=False)[0]


def _encoder(inner: nn.Module) -> Export:
    axes = {name: {0: "batch", 1: "length"} for name in ("input_ids", "attention_mask")}
    runs = []
    for batch, length in ((2, 8), (3, 13)):
        mask = torch.ones(batch, length, dtype=torch.int64)
        mask[1, length - 3 :] = 0
        runs.append((_ids(batch, length), mask))
    return Export(_Encoder(inner), list(axes), runs, ["hidden"], axes)


def _bert(exporter: str) -> Export:
    config = tf.BertConfig(**_SMALL, intermediate_size=128, max_position_embeddings=32)
    config._attn_implementation = _attention(exporter)
    return _encoder(tf.BertModel(config, add_pooling_layer=False))


def _distilbert(exporter: str) -> Export:
    config = tf.DistilBertConfig(
        vocab_size=64, dim=64, n_layers=2, n_heads=4, hidden_dim=128, max_position_embeddings=32
    )
    config._attn_implementation = _attention(exporter)
    return _encoder(tf.DistilBertForSequenceClassification(config))


def _modernbert(exporter: str) -> Export:
    config = tf.ModernBertConfig(
        **_SMALL | {"num_hidden_layers": 3}, intermediate_size=96, max_position_embeddings=64, local_attention=8,
        global_attn_every_n_layers=3, pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2,
    )  # fmt: skip
    config._attn_implementation = _attention(exporter)
    return _encoder(tf.ModernBertModel(config))


def _deberta(_: str) -> Export:
    config = tf.DebertaV2Config(
        **_SMALL, intermediate_size=128, max_position_embeddings=32, relative_attention=True, position_buckets=8,
        pos_att_type=["p2c", "c2p"], share_att_key=True, norm_rel_ebd="layer_norm", position_biased_input=False,
        pad_token_id=0,
    )  # fmt: skip
    return _encoder(tf.DebertaV2Model(config))


def _pairs(cache: Any) -> list[torch.Tensor]:
    return [tensor for layer in cache.layers for tensor in (layer.keys, layer.values)]


def _cache(tensors: list[torch.Tensor]) -> Any:
    cache = DynamicCache()
    for layer in range(len(tensors) // 2):
        cache.update(tensors[2 * layer], tensors[2 * layer + 1], layer)
    return cache


class _Decoder(nn.Module):
    """One step of generation: new tokens, the mask of old and new ones, past keys and values."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, past: list[torch.Tensor]
    ) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Scores, and keys and values of all tokens."""
        out = self.inner(input_ids, attention_mask=attention_mask, past_key_values=_cache(past), use_cache=True)
        return out.logits, _pairs(out.past_key_values)


def _decoder(inner: nn.Module, kv_heads: int, head_size: int) -> Export:
    past = [f"past{layer}_{kind}" for layer in range(2) for kind in ("key", "value")]
    axes = {"input_ids": {0: "batch", 1: "length"}, "attention_mask": {0: "batch", 1: "total"}}
    axes |= {name: {0: "batch", 2: "past"} for name in past}
    runs = []
    for batch, length, before in ((2, 3, 5), (3, 2, 9)):
        mask = torch.ones(batch, before + length, dtype=torch.int64)
        mask[1, :2] = 0
        cache = [torch.randn(batch, kv_heads, before, head_size) for _ in past]
        runs.append((_ids(batch, length), mask, cache))
    outputs = ["logits", *(name.replace("past", "present") for name in past)]
    return Export(_Decoder(inner), list(axes), runs, outputs, axes)


def _gpt2(exporter: str) -> Export:
    config = tf.GPT2Config(vocab_size=64, n_positions=32, n_embd=64, n_layer=2, n_head=4)
    config._attn_implementation = _attention(exporter)
    return _decoder(tf.GPT2LMHeadModel(config), 4, 16)


def _llama(exporter: str) -> Export:
    config = tf.LlamaConfig(**_SMALL, num_key_value_heads=2, intermediate_size=96, max_position_embeddings=64)
    config._attn_implementation = _attention(exporter)
    return _decoder(tf.LlamaForCausalLM(config), 2, 16)


def _qwen3(exporter: str) -> Export:
    config = tf.Qwen3Config(
        **_SMALL, num_key_value_heads=2, head_dim=16, intermediate_size=96, max_position_embeddings=64
    )
    config._attn_implementation = _attention(exporter)
    return _decoder(tf.Qwen3ForCausalLM(config), 2, 16)


def _mixtral(exporter: str) -> Export:
    config = tf.MixtralConfig(
        **_SMALL, num_key_value_heads=2, intermediate_size=64, max_position_embeddings=64, num_local_experts=4,
        num_experts_per_tok=2,
    )  # fmt: skip
    config._attn_implementation = _attention(exporter)
    # The default loops over the experts that were hit, which no trace holds; this form multiplies by all of them.
    config._experts_implementation = "batched_mm"
    return _decoder(tf.MixtralForCausalLM(config), 2, 16)


def _gemma2(_: str) -> Export:
    config = tf.Gemma2Config(
        **_SMALL, num_key_value_heads=2, head_dim=32, intermediate_size=96, max_position_embeddings=64,
        sliding_window=8, query_pre_attn_scalar=32,
    )  # fmt: skip
    config._attn_implementation = "eager"  # its scores are capped
    return _decoder(tf.Gemma2ForCausalLM(config), 2, 32)


def _glm4(exporter: str) -> Export:
    config = tf.Glm4Config(
        **_SMALL, num_key_value_heads=2, head_dim=16, intermediate_size=96, max_position_embeddings=64, pad_token_id=0
    )
    config._attn_implementation = _attention(exporter)
    return _decoder(tf.Glm4ForCausalLM(config), 2, 16)


def _gpt_neox(exporter: str) -> Export:
    config = tf.GPTNeoXConfig(**_SMALL, intermediate_size=96, max_position_embeddings=64)
    config._attn_implementation = _attention(exporter)
    return _decoder(tf.GPTNeoXForCausalLM(config), 4, 16)


class _Reader(nn.Module):
    """Tokens that attend to states of another size to scores."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, input_ids: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        """The scores."""
        return self.inner(input_ids=input_ids, encoder_hidden_states=hidden, use_cache=False).logits


def _trocr(exporter: str) -> Export:
    config = tf.TrOCRConfig(
        vocab_size=64, d_model=64, decoder_layers=2, decoder_attention_heads=4, decoder_ffn_dim=96,
        max_position_embeddings=64, cross_attention_hidden_size=48,
    )  # fmt: skip
    config._attn_implementation = _attention(exporter)
    axes = {"input_ids": {0: "batch", 1: "length"}, "hidden": {0: "batch"}}
    runs = [(_ids(batch, length), torch.randn(batch, 7, 48)) for batch, length in ((2, 5), (3, 8))]
    return Export(_Reader(tf.TrOCRForCausalLM(config)), list(axes), runs, ["logits"], axes)


def _t5_config(exporter: str) -> Any:
    del exporter
    return tf.T5Config(
        vocab_size=64, d_model=64, d_kv=16, d_ff=96, num_layers=2, num_heads=4, decoder_start_token_id=0,
        feed_forward_proj="gated-gelu", relative_attention_num_buckets=8, relative_attention_max_distance=16,
    )  # fmt: skip


def _bart_config(exporter: str) -> Any:
    config = tf.BartConfig(
        vocab_size=64, d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=96, decoder_ffn_dim=96, max_position_embeddings=32,
    )  # fmt: skip
    config._attn_implementation = _attention(exporter)
    return config


def _whisper_config(exporter: str) -> Any:
    config = tf.WhisperConfig(
        vocab_size=64, num_mel_bins=16, d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=96, decoder_ffn_dim=96, max_source_positions=20,
        max_target_positions=32, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
    )  # fmt: skip
    config._attn_implementation = _attention(exporter)
    return config


class _CrossDecoder(nn.Module):
    """One step of an encoder-decoder: tokens, the encoder's states, past keys and values of its self-attention."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(
        self, input_ids: torch.Tensor, hidden: torch.Tensor, past: list[torch.Tensor]
    ) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Scores, and keys and values of all tokens."""
        cache = EncoderDecoderCache(_cache(past), DynamicCache())
        out = self.inner(
            decoder_input_ids=input_ids, encoder_outputs=(hidden,), past_key_values=cache, use_cache=True
        )  # fmt: skip
        return out.logits, _pairs(out.past_key_values.self_attention_cache)


def _cross_decoder(inner: nn.Module, source: tuple[int, int]) -> Export:
    past = [f"past{layer}_{kind}" for layer in range(2) for kind in ("key", "value")]
    axes = {"input_ids": {0: "batch", 1: "length"}, "hidden": {0: "batch", 1: "source"}}
    axes |= {name: {0: "batch", 2: "past"} for name in past}
    if source[0] == source[1]:
        del axes["hidden"][1]
    runs = [
        (_ids(batch, length), torch.randn(batch, frames, 64), [torch.randn(batch, 4, before, 16) for _ in past])
        for batch, length, before, frames in ((2, 3, 5, source[0]), (3, 2, 9, source[1]))
    ]
    outputs = ["logits", *(name.replace("past", "present") for name in past)]
    return Export(_CrossDecoder(inner), list(axes), runs, outputs, axes)


def _whisper_encoder(exporter: str) -> Export:
    module = First(tf.WhisperForConditionalGeneration(_whisper_config(exporter)).model.encoder)
    runs = [(torch.randn(batch, 16, 40),) for batch in (2, 3)]
    return Export(module, ["mel"], runs, ["hidden"], {"mel": {0: "batch"}})


def _clip(exporter: str) -> Export:
    config = tf.CLIPTextConfig(
        **_SMALL, intermediate_size=96, max_position_embeddings=32, pad_token_id=0, bos_token_id=1, eos_token_id=2
    )
    config._attn_implementation = _attention(exporter)
    return _encoder(tf.CLIPTextModel(config))


MODELS = entries(
    {
        "bert": _bert,
        "distilbert": _distilbert,
        "modernbert": _modernbert,
        "deberta": _deberta,
        "clip_text": _clip,
        "gpt2": _gpt2,
        "llama": _llama,
        "qwen3": _qwen3,
        "mixtral": _mixtral,
        "gemma2": _gemma2,
        "glm4": (_glm4, ("dynamo",)),
        "gpt_neox": _gpt_neox,
        "trocr": (_trocr, ("torchscript",)),
        "t5_encoder": lambda exporter: _encoder(tf.T5ForConditionalGeneration(_t5_config(exporter)).encoder),
        "t5_decoder": lambda exporter: _cross_decoder(tf.T5ForConditionalGeneration(_t5_config(exporter)), (7, 11)),
        "bart_encoder": lambda exporter: _encoder(tf.BartModel(_bart_config(exporter)).encoder),
        "bart_decoder": lambda exporter: _cross_decoder(
            tf.BartForConditionalGeneration(_bart_config(exporter)), (7, 11)
        ),
        "whisper_encoder": _whisper_encoder,
        "whisper_decoder": lambda exporter: _cross_decoder(
            tf.WhisperForConditionalGeneration(_whisper_config(exporter)), (20, 20)
        ),
    }
)
