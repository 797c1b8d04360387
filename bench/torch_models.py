"""The modules behind `bench/graphs` and the benchmark's own ResNet-50 and BERT: for exports, and for torch itself.

Needs torch, torchvision and transformers. Parameters are random: what is compared is time.
"""

from __future__ import annotations

from typing import Any

import torch
import torchvision
import transformers
from torch import nn
from transformers import DynamicCache

from bench.full_models import DECODER_HEAD_SIZE, DECODER_KV_HEADS, DECODER_LAYERS
from bench.torch_images import Detector, UNet


class _First(nn.Module):
    """A model of transformers of one input, its first output alone."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The first output."""
        return self.inner(x, return_dict=False)[0]


class _Masked(nn.Module):
    """Tokens and their mask to the first output."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """The last hidden state."""
        return self.inner(input_ids, attention_mask=attention_mask, return_dict=False)[0]


class _Bert(nn.Module):
    """Of the inputs that the benchmark's graph has."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = transformers.BertModel(transformers.BertConfig(attn_implementation="sdpa"))

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor, token_type_ids: torch.Tensor) -> Any:
        """Hidden state and pooled output."""
        return self.inner(input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids, return_dict=False)


class _Decoder(nn.Module):
    """Tokens, the mask of old and new ones, past keys and values of each layer; scores, and all keys and values."""

    def __init__(self, layers: int, width: int, heads: int, wide: int, words: int) -> None:
        super().__init__()
        config = transformers.LlamaConfig(
            vocab_size=words, hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads,
            num_key_value_heads=DECODER_KV_HEADS, head_dim=DECODER_HEAD_SIZE, intermediate_size=wide,
            max_position_embeddings=4096, tie_word_embeddings=True, attn_implementation="sdpa",
        )  # fmt: skip
        self.inner = transformers.LlamaForCausalLM(config)

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, past: list[torch.Tensor]
    ) -> tuple[torch.Tensor, ...]:
        """One step, or the first of many tokens."""
        cache = DynamicCache()
        for layer in range(len(past) // 2):
            cache.update(past[2 * layer], past[2 * layer + 1], layer)
        out = self.inner(input_ids, attention_mask=attention_mask, past_key_values=cache, use_cache=True)
        present = [tensor for layer in out.past_key_values.layers for tensor in (layer.keys, layer.values)]
        return out.logits, *present


def _modernbert() -> nn.Module:
    return _Masked(transformers.ModernBertModel(transformers.ModernBertConfig(attn_implementation="sdpa")))


def _whisper() -> nn.Module:
    config = transformers.WhisperConfig(
        d_model=768, encoder_layers=12, encoder_attention_heads=12, encoder_ffn_dim=3072, attn_implementation="sdpa"
    )
    return _First(transformers.models.whisper.modeling_whisper.WhisperEncoder(config))


_VISION = torchvision.models
BUILDERS: dict[str, Any] = {
    "resnet50": lambda: _VISION.resnet50(weights=None),
    "bert": _Bert,
    "mobilenet_v3": lambda: _VISION.mobilenet_v3_large(weights=None),
    "efficientnet_b0": lambda: _VISION.efficientnet_b0(weights=None),
    "convnext_tiny": lambda: _VISION.convnext_tiny(weights=None),
    "vit_b16": lambda: _VISION.vit_b_16(weights=None),
    "swin_t": lambda: _VISION.swin_t(weights=None),
    "detector": Detector,
    "modernbert": _modernbert,
    "whisper_encoder": _whisper,
    "unet": UNet,
    "decoder": lambda: _Decoder(DECODER_LAYERS, 2048, 32, 8192, 32000),
}


def build(name: str, seed: int = 0) -> nn.Module:
    """The module of a model, in evaluation mode, fp32. KeyError for a name that is not in BUILDERS."""
    torch.manual_seed(seed)
    module: nn.Module = BUILDERS[name]()
    return module.eval()


def arguments(name: str, feeds: dict[str, torch.Tensor]) -> tuple[Any, ...]:
    """The arguments of a module's call: the inputs in their order, a decoder's past as one list."""
    values = list(feeds.values())
    return (*values[:2], values[2:]) if name == "decoder" else tuple(values)
