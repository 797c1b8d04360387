"""Recurrent networks, a recommender, Mamba, speech."""

import torch
import transformers as tf
from torch import nn

from .model import Export, entries


class _Recurrent(nn.Module):
    """Tokens through two bidirectional layers to scores, as taggers and recognisers have it."""

    def __init__(self, cell: type[nn.Module]) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 24)
        self.rnn = cell(24, 16, 2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(32, 10)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Log probabilities for each token."""
        return torch.log_softmax(self.head(self.rnn(self.embed(tokens))[0]), -1)


def _recurrent(cell: type[nn.Module]) -> Export:
    runs = [(torch.randint(0, 50, shape),) for shape in ((2, 7), (3, 12))]
    return Export(_Recurrent(cell), ["tokens"], runs, ["y"], {"tokens": {0: "batch", 1: "length"}})


class _Recommender(nn.Module):
    """DLRM: bags of categories, dense features, products of pairs."""

    def __init__(self) -> None:
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(100, 16, mode=mode) for mode in ("sum", "mean", "sum"))
        self.bottom = nn.Sequential(nn.Linear(13, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(22, 32), nn.ReLU(), nn.Linear(32, 1))
        self.register_buffer("pairs", torch.tril_indices(4, 4, -1))

    def forward(self, dense: torch.Tensor, indices: list[torch.Tensor], offsets: list[torch.Tensor]) -> torch.Tensor:
        """The probability of a click."""
        bags = zip(self.bags, indices, offsets, strict=True)
        rows = [self.bottom(dense), *(bag(index, offset) for bag, index, offset in bags)]
        stacked = torch.stack(rows, 1)
        products = torch.bmm(stacked, stacked.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
        return torch.sigmoid(self.top(torch.cat([rows[0], products], 1)))


def _recommender(_: str) -> Export:
    def run(offsets: list[int], count: int) -> tuple[object, ...]:
        indices = [torch.randint(0, 100, (count,)) for _ in range(3)]
        return torch.randn(len(offsets), 13), indices, [torch.tensor(offsets) for _ in range(3)]

    names = ["dense", *(f"indices{i}" for i in range(3)), *(f"offsets{i}" for i in range(3))]
    axes = {name: {0: "batch" if name[0] in "do" else f"total{name[-1]}"} for name in names}
    return Export(_Recommender(), names, [run([0, 3, 4], 9), run([0, 2, 3, 7, 8], 11)], ["click"], axes)


class _Mamba(nn.Module):
    """Mamba without its cache."""

    def __init__(self) -> None:
        super().__init__()
        config = tf.MambaConfig(
            vocab_size=64, hidden_size=32, state_size=8, num_hidden_layers=2, conv_kernel=4, expand=2, use_mambapy=False
        )
        self.inner = tf.MambaForCausalLM(config)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        """Scores for each token."""
        return self.inner(input_ids, use_cache=False, return_dict=False)[0]


def _mamba(_: str) -> Export:
    # The scan is a Python loop over tokens: an export is for one length.
    runs = [(torch.randint(0, 64, (batch, 6)),) for batch in (2, 3)]
    return Export(_Mamba(), ["input_ids"], runs, ["logits"], {"input_ids": {0: "batch"}})


class First(nn.Module):
    """A model of transformers' with one input, and its first output alone."""

    def __init__(self, inner: nn.Module) -> None:
        """Around `inner`."""
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The first output."""
        return self.inner(x, return_dict=False)[0]


def _wav2vec2(exporter: str) -> Export:
    config = tf.Wav2Vec2Config(
        vocab_size=32, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
        conv_dim=(16, 16, 16), conv_stride=(5, 2, 2), conv_kernel=(10, 3, 3), num_conv_pos_embeddings=16,
        num_conv_pos_embedding_groups=4, attn_implementation="eager" if exporter == "torchscript" else "sdpa",
    )  # fmt: skip
    module = First(tf.Wav2Vec2ForCTC(config))
    runs = [(torch.randn(2, 800),), (torch.randn(1, 1000),)]
    return Export(module, ["samples"], runs, ["logits"], {"samples": {0: "batch", 1: "length"}})


MODELS = entries(
    {
        "lstm": lambda _: _recurrent(nn.LSTM),
        "gru": lambda _: _recurrent(nn.GRU),
        "dlrm": _recommender,
        "mamba": _mamba,
        "wav2vec2": _wav2vec2,
    }
)
